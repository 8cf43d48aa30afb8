"""Tailing: every line once, in pieces of any size."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.process.output_tail import LAST, LONGEST, OutputLine, Tail


def read_all(tail: Tail) -> list[OutputLine]:
    return [line for lines in tail.rest() for line in lines]


@given(
    pieces=st.lists(st.text(alphabet="a\n", max_size=9).map(str.encode)),
    restarts=st.lists(st.booleans()),
)
def test_every_line_comes_once_whatever_the_pieces_and_restarts(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], restarts: list[bool]
) -> None:
    path = tmp_path_factory.mktemp("tail") / "out"
    tail, offset = Tail(path), 0
    delivered: list[OutputLine] = []
    with path.open("ab", buffering=0) as file:
        for number, piece in enumerate(pieces):
            file.write(piece)
            delivered += tail.lines()
            offset = delivered[-1].end if delivered else 0
            if restarts[number : number + 1] == [True]:
                tail = Tail(path, offset)
    delivered += read_all(tail)
    text = b"".join(pieces)
    assert b"\n".join(line.text for line in delivered) == text.removesuffix(b"\n")
    assert [line.end for line in delivered] == [
        sum(len(line.text) + 1 for line in delivered[: n + 1])
        - (n + 1 == len(delivered) and text[-1:] != b"\n")
        for n in range(len(delivered))
    ]
    assert read_all(Tail(path, delivered[-1].end if delivered else 0)) == []


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"one\ntw")
    tail = Tail(path)
    assert tail.lines() == [OutputLine(b"one", 4, 0)]
    assert tail.lines() == []
    with path.open("ab") as file:
        file.write(b"o\n")
    assert tail.lines() == [OutputLine(b"two", 8, 0)]


def test_a_file_that_is_not_there_yet_has_no_lines(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "out")
    assert tail.lines() == []
    assert read_all(tail) == []


@pytest.mark.parametrize("extra", [0, 1, 5_000_000])
def test_a_line_too_long_is_cut_and_what_follows_is_whole(tmp_path: Path, extra: int) -> None:
    path = tmp_path / "out"
    long = b"x" * (LONGEST + extra)
    path.write_bytes(b"before\n" + long + b"\nafter\n" + long)
    delivered = read_all(Tail(path))
    assert [line.text for line in delivered] == [
        b"before",
        long[:LONGEST],
        b"after",
        long[:LONGEST],
    ]
    assert [line.cut for line in delivered] == [0, extra, 0, extra]
    assert delivered[-1].end == path.stat().st_size
    # A restart in the middle of the long line finds it again from its beginning.
    assert read_all(Tail(path, delivered[0].end)) == delivered[1:]


@pytest.mark.parametrize("size", [0, 1, LAST - 1, LAST, LAST + 1, 3 << 20])
@pytest.mark.parametrize("piece", [40_000, 1 << 20, 5 << 20])
def test_the_end_of_a_line_too_long_is_delivered_whatever_the_pieces(
    tmp_path: Path, size: int, piece: int
) -> None:
    path = tmp_path / "out"
    middle = b"".join(b"%08d" % number for number in range(size // 8 + 1))[:size]
    text = b"x" * LONGEST + middle + b"\nshort\n" + b"y" * (LONGEST + 3)
    tail = Tail(path)
    delivered: list[OutputLine] = []
    with path.open("ab", buffering=0) as file:
        for start in range(0, len(text), piece):
            file.write(text[start : start + piece])
            delivered += tail.lines()
    delivered += read_all(tail)
    assert [line.last for line in delivered] == [middle[-LAST:] if size else b"", b"", b"yyy"]
    assert [line.cut for line in delivered] == [size, 0, 3]


def test_memory_and_work_of_one_look_are_bounded_by_no_input(tmp_path: Path) -> None:
    """A line of a gigabyte, and a gigabyte of empty lines; each call takes a small part."""
    path = tmp_path / "out"
    with path.open("wb") as file:
        file.truncate(1 << 30)  # a hole: zeros without a newline
    tail = Tail(path)
    tracemalloc.start()
    for _ in range(8):
        assert tail.lines() == []
    empty = tmp_path / "empty"
    empty.write_bytes(b"\n" * 1_000_000)
    tail = Tail(empty)
    for _ in range(8):
        assert len(tail.lines()) <= 10_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


def test_bytes_that_are_no_text_pass_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"\xff\xfe\0\r\n\xc3\n")
    assert [line.text for line in read_all(Tail(path))] == [b"\xff\xfe\0\r", b"\xc3"]
