"""The token a server leaves for its user: a valid one, in a file that is nobody else's."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from store_helpers import url
from weft.api.http.auth import keep_own_token
from weft.errors import InputError
from weft.project.server_address import token_file
from weft.store import Store
from weft.store.tokens import create_token, identify, revoke_token

__all__ = ["url"]


def kept(store: Store, file: Path, now: float) -> str:
    keep_own_token(store, file, now=now)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return file.read_text().strip()


def test_a_token_that_is_still_good_is_used_again(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "state" / "server.token"
    first = kept(store, file, 1)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert identify(store, first, now=1).scopes == {"admin"}
    assert kept(store, file, 2) == first


def test_what_is_revoked_readable_by_others_or_no_admins_is_replaced(
    store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "server.token"
    first = kept(store, file, 1)
    revoke_token(store, identify(store, first, now=1).id, now=1)
    second = kept(store, file, 2)
    assert second != first
    file.chmod(0o640)
    third = kept(store, file, 3)
    assert third not in (first, second)
    _, reader = create_token(store, name="r", scopes=("read",), now=3)
    file.write_text(reader)
    assert kept(store, file, 4) != reader
    file.write_text("nonsense")
    assert kept(store, file, 5) != "nonsense"


def test_a_place_that_cannot_be_written_is_said_in_a_sentence(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="Cannot keep a token"):
        keep_own_token(store, tmp_path / "file" / "server.token", now=1)


def test_the_servers_of_two_projects_on_postgresql_have_a_file_each(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    one, again, other, elsewhere = (
        token_file(None, url, environment)
        for url in (
            "postgresql://ann:old@db/one",
            "postgresql://ann:new@db/one",
            "postgresql://ann:old@db/two",
            "postgresql://ann:old@db,spare/one",
        )
    )
    assert one == again  # a password is no part of a name
    assert len({one, other, elsewhere}) == 3
    assert one.parent == tmp_path / "weft"
