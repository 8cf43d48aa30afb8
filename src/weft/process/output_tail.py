"""A growing file, read line by line by byte offset, across restarts.

A line is delivered when its end has been written; the caller keeps the offset after the last line
it has handled, and a new Tail continues from there: no line twice, none left out. The file is not
kept open or watched: an idle file costs a `stat` per call. The size of a read and of a line in
memory is bounded; the file itself keeps all output.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

LONGEST = 1 << 20
"""Bytes of a line that are delivered; the rest of it is only counted."""

LAST = 1 << 16
"""Bytes delivered from the end of a line that is too long."""

_CHUNK = 1 << 20
_LINES = 10_000  # per call, however short they are
_FLOOD = 1 << 16  # bytes


class OutputLine(
    NamedTuple
):  # a tuple, since there are very many and it is the quickest record to make
    text: bytes  # without its newline
    end: int  # the offset after it, newline included
    cut: int  # bytes left out of the text
    last: bytes = b""  # the last bytes of those


class Tail:
    def __init__(self, path: str | os.PathLike[str], offset: int = 0) -> None:
        self._path = os.fspath(path)
        self._delivered = offset
        self._held = b""  # read after that and not delivered, the middle of a long line apart
        self._cut = 0  # how long that middle is
        self._last = b""  # and its end

    def size(self) -> int:
        """Return the length of the file; 0 if it does not exist yet."""
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return 0

    def is_behind(self) -> bool:
        """Return whether the file has lines that were not read or not delivered."""
        return b"\n" in self._held or self.size() > self._read

    def lines(self) -> list[OutputLine]:
        """Return the next complete lines; none while a long line is skipped."""
        if b"\n" not in self._held:
            if self.size() <= self._read:
                return []
            self._held += self._chunk()
        return self._skip_flood() or self._deliver()

    def rest(self) -> Iterator[list[OutputLine]]:
        """Yield all that is left after the last write; the last line may lack its newline."""
        while self.is_behind():
            yield self.lines()
        if self._held:
            self._held += b"\n"
            [line] = self._deliver()
            self._delivered = line.end - 1
            yield [line._replace(end=line.end - 1)]

    @property
    def _read(self) -> int:
        return self._delivered + len(self._held) + self._cut

    def _chunk(self) -> bytes:
        with open(self._path, "rb", buffering=0) as file:
            file.seek(self._read)
            return file.read(_CHUNK) or b""

    def _skip_flood(self) -> list[OutputLine]:
        """Deliver a chunk of empty lines as a single line: there may be a billion."""
        if len(self._held) < _FLOOD or self._cut or self._held.strip(b"\n"):
            return []
        self._delivered += len(self._held)
        self._held = b""
        return [OutputLine(b"", self._delivered, 0)]

    def _deliver(self) -> list[OutputLine]:
        *texts, self._held = self._held.split(b"\n", _LINES)
        lines = []
        end = self._delivered
        for text in texts:
            end += len(text) + self._cut + 1
            if self._cut or len(text) > LONGEST:
                self._leave_out(text[LONGEST:])
                text = text[:LONGEST]
            lines.append(OutputLine(text, end, self._cut, self._last))
            self._cut, self._last = 0, b""
        self._delivered = end
        self._drop_middle()
        return lines

    def _drop_middle(self) -> None:
        """Keep only the beginning of a line that is too long, while its end is not in sight."""
        if len(self._held) > LONGEST and b"\n" not in self._held:
            self._leave_out(self._held[LONGEST:])
            self._held = self._held[:LONGEST]

    def _leave_out(self, middle: bytes) -> None:
        self._cut += len(middle)
        self._last = (self._last + middle)[-LAST:]
