"""`weft token`, on both stores."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cli.shell import answer, assert_one_sentence, make_project, weft
from store_helpers import url
from weft.errors import Unauthenticated
from weft.store import Store
from weft.store.tokens import identify

__all__ = ["url"]


def test_tokens_are_made_listed_and_revoked(tmp_path: Path, store: Store, url: str) -> None:
    project = make_project(tmp_path / "project")
    text = weft(project, "token", "create", "ann", WEFT_STORE=url).stdout.strip()
    assert identify(store, text, now=time.time()).scopes == {"read", "work"}
    made = answer(
        project,
        "token", "create", "bob", "--scope", "read", "--tenant", "t", "--expires", "30d", "--json",
        WEFT_STORE=url,
    )  # fmt: skip
    assert identify(store, made["secret"], now=time.time()).tenant == "t"
    assert made["expires"] - made["created"] == 30 * 86_400
    listed = answer(project, "token", "list", "--json", WEFT_STORE=url)["tokens"]
    assert [one["name"] for one in listed] == ["ann", "bob"]
    assert "secret" not in listed[0]
    assert answer(project, "token", "revoke", made["id"], "--json", WEFT_STORE=url)["revoked"]
    with pytest.raises(Unauthenticated):
        identify(store, made["secret"], now=time.time())
    shown = weft(project, "token", "list", WEFT_STORE=url).stdout
    assert "revoked" in shown
    assert text not in shown
    wrong = weft(project, "token", "create", "c", "--expires", "never", WEFT_STORE=url)
    assert_one_sentence(wrong, 2, "30d")
