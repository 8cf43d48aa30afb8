"""Parts of output that come from a host are bounded and believed only if they go forward."""

from __future__ import annotations

import pytest

from cases import each_case
from weft.errors import Refused
from weft.process.output_tail import OutputLine
from weft.runs.host_output import OutputPiece, encode_piece, read_answer, shorten_piece


def piece(*lines: OutputLine, adapter: str = "scripted") -> OutputPiece:
    return OutputPiece(adapter=adapter, lines=lines, more=False)


FIRST, SECOND = OutputLine(b"\xff one", 6, 0), OutputLine(b"two", 10, 0)


def test_an_answer_comes_back_byte_by_byte() -> None:
    sent = piece(FIRST, SECOND)
    assert read_answer(encode_piece(sent), 0, "It is there") == sent


@each_case(
    ("answer", "problem"),
    [
        ("{", "nonsense"),
        ('{"lines": 7}', "nonsense"),
        (encode_piece(None), "deleted"),
        (encode_piece(piece(FIRST, adapter="sh")), "nonsense"),
        (encode_piece(piece(SECOND, FIRST)), "nonsense"),
        (encode_piece(piece(FIRST, FIRST)), "nonsense"),
        (encode_piece(piece(OutputLine(b"", 5, 0))), "nonsense"),
    ],
)
def test_an_answer_that_is_no_output_is_refused(answer: str, problem: str) -> None:
    """Offsets that stand still would keep a reader busy for ever."""
    with pytest.raises(Refused, match=f"It is there, which .*{problem}"):
        read_answer(answer, 5, "It is there")


def test_a_part_has_so_many_bytes_or_a_single_line() -> None:
    whole = piece(FIRST, SECOND)
    assert shorten_piece(whole, most=8) == whole
    short = shorten_piece(whole, most=7)
    assert (short.lines, short.more) == ((FIRST,), True)
    assert shorten_piece(piece(FIRST), most=1) == piece(FIRST)
