"""A host that has joined: the token in the file that a person names is read, and not used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile_server import HostileAnswer, HostileServer, hostile_server
from weft.errors import InputError
from weft.project.worker_host import HostFiles, join

JOINED = {"host": "far-1", "repository": "0" * 32, "secret": "s", "expires": 1.0}


def answer(request: HostileAnswer) -> None:
    """Let every host join, take every token and confirmation."""
    confirms = request.path.endswith("/confirmation")
    status = 204 if confirms else 201 if request.command == "POST" else 200
    request.send(status, b"" if confirms else json.dumps(JOINED).encode())


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with hostile_server(answer) as opened:
        yield opened


def test_a_host_that_has_joined_says_that_a_token_was_not_used(
    server: HostileServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = HostFiles(server.url, {"HOME": str(tmp_path)})
    token = tmp_path / "join"
    token.write_text("word")
    join(server.url, token, files)
    assert caplog.messages == []
    join(server.url, token, files)
    [line] = caplog.messages
    assert line == f"This host has joined {server.url} already; the token in {token} was not used."
    assert [path for path, _ in server.requests].count("/v1/hosts") == 1
    token.write_text("\n")
    with pytest.raises(InputError, match=f"{token} contains no token"):
        join(server.url, token, files)
    token.unlink()
    with pytest.raises(InputError, match=f"Cannot read the token in {token}: No such file"):
        join(server.url, token, files)
