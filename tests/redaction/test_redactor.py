"""Secrets are taken out of any text; other text stays."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from weft.redaction import SHAPES_ALONE, Redactor

KEY = 'k3y"9\\f/=<&>\nzweite\tZeile ü😀-ende'
HIDE = Redactor([("MY_KEY", KEY)])


@each_case("ascii_only", [True, False])
def test_a_value_is_found_however_json_wrote_it(ascii_only: bool) -> None:
    text = f"before {KEY} after"
    for _ in range(4):
        assert HIDE.redact_text(text).count("[MY_KEY]") == 1
        assert "zweite" not in HIDE.redact_text(text)
        text = json.dumps({"text": text}, ensure_ascii=ascii_only)
    assert (
        HIDE.redact_text(json.dumps(KEY).replace("/", "\\/").replace("<", "\\u003C"))
        == '"[MY_KEY]"'
    )


@given(st.text(min_size=1), st.text(), st.text(), st.booleans())
def test_no_value_is_left_and_json_stays_json(
    value: str, before: str, after: str, ascii_only: bool
) -> None:
    hide = Redactor([("V", value)])
    line = json.dumps([before + value + after], ensure_ascii=ascii_only)
    assert "[V]" in hide.redact_text(before + value + after)
    redacted = json.loads(json.dumps(hide.redact_value(json.loads(line))))
    assert "[V]" in redacted[0]


def test_of_values_within_each_other_the_longest_is_taken_out_whole() -> None:
    hide = Redactor([("SHORT", "abcd1234"), ("LONG", "abcd1234-and-more")])
    assert hide.redact_text("abcd1234-and-more abcd1234") == "[LONG] [SHORT]"
    assert Redactor().with_values([("A", "abcd1234")]).redact_text("abcd1234") == "[A]"
    assert hide.with_values([("SHORT", "abcd1234")]) is hide


def _credentials() -> dict[str, str]:
    word = secrets.token_hex(30)
    return {
        f"weft_{secrets.token_hex(6)}_{secrets.token_urlsafe(32)}": "weft_[hidden]",
        f"sk-ant-api03-{word}": "sk-ant-[hidden]",
        f"sk-proj-{word}": "sk-[hidden]",
        f"ghp_{word}": "ghp_[hidden]",
        f"github_pat_{word}": "github_pat_[hidden]",
        "AKIAIOSFODNN7EXAMPLE": "AKIA[hidden]",
        f"Authorization: Bearer {word}": "Authorization: Bearer [hidden]",
        "postgresql://me:pa55@db/x": "postgresql://me:[hidden]@db/x",
    }


def test_credentials_of_known_shapes_are_hidden_wherever_they_stand() -> None:
    for credential, shown in _credentials().items():
        for around in ("{}", "x {} y", '{{"text":"{}"}}', "KEY={}\\n"):
            redacted = SHAPES_ALONE.redact_text(around.format(credential))
            assert redacted == around.format(shown)
            assert SHAPES_ALONE.redact_text(redacted) == redacted


@each_case(
    "text",
    [
        "weft_run is a name, and so is weft_0123456789ab_short",
        "sk-learn-pipelines-of-all-kinds-and-a-task-with-many-dashes-2024",
        "Bearer authentication-middleware is used",
        "the bearer of this",
        "http://localhost:8080/a@b and me@example.org and git@github.com:a/b.git",
        "postgresql://user:$PASSWORD@host/db, postgresql://user:<password>@host",
        "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12 is a commit",
        "AKIA is a prefix, ghp_ another",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert SHAPES_ALONE.redact_text(text) is text


def test_recorded_streams_are_left_alone() -> None:
    streams = Path(__file__).parents[1] / "streams"
    lines = [line for path in streams.rglob("*.jsonl") for line in path.read_bytes().splitlines()]
    assert lines
    assert list(SHAPES_ALONE.redact_lines(lines)) == lines


def test_many_lines_are_as_each_of_them() -> None:
    lines = [
        b"nothing",
        f"one {KEY}".encode(),
        *(credential.encode() for credential in _credentials()),
    ]
    assert list(HIDE.redact_lines(lines)) == [HIDE.redact_line(line) for line in lines]
    assert HIDE.redact_lines([b"nothing"]) == [b"nothing"]
