from __future__ import annotations

import secrets

from weft.agents.secrets import without_tokens


def test_a_token_is_hidden_wherever_it_stands() -> None:
    token = f"weft_{secrets.token_hex(6)}_{secrets.token_urlsafe(32)}".encode()
    for line in (token, b'{"text": "Bearer ' + token + b'"}', b"x" + token + b" " + token):
        shown = without_tokens(line)
        assert token[18:] not in shown
        assert b"weft_[hidden]" in shown


def test_everything_else_stays_as_it_is() -> None:
    for line in (b"", b"weft_", b"weft_run", b"weft_0123456789ab_short", b"\xff weft/run"):
        assert without_tokens(line) == line
