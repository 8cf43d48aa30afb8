"""The output of an attempt in pages: lines by their numbers, without keeping them in memory.

Readable lines are made from an agent's output in order, so a page in the middle needs the reader's
state there. A mark every thousand lines keeps it.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from weft.errors import Refused
from weft.model import Attempt
from weft.runs.attempt_output import LineReader, TaskLog
from weft.runs.host_output import AttemptName, OutputPiece

_MARK: Final = 1000  # lines between marks
_KEPT: Final = 64  # logs whose marks are kept


class OutputAway(Refused):
    """The output of an attempt is on another host."""


class LogPage(Struct, frozen=True, kw_only=True):
    first: int  # number of its first line, from 1
    lines: tuple[str, ...]
    total: int  # lines so far


class _Mark(Struct, frozen=True):
    line: int  # lines before it
    offset: int
    reader: LineReader | None


class LogPages:
    def __init__(self) -> None:
        self._marks = [_Mark(0, 0, None)]
        self._total = 0
        self._end = self._marks[0]  # behind the last line that was read
        self._lock = threading.Lock()

    def read(self, log: TaskLog, attempt: Attempt, first: int | None, most: int) -> LogPage:
        """Return `most` lines from line `first` on, or the last lines."""
        with self._lock:
            try:
                unended = self._count(log, attempt)
            except OutputAway:
                return _read_reported(log, attempt, first, most)
            total = self._total + len(unended)
            start = _find_start(total, first, most)
            lines = self._lines(log, attempt, start - 1)
            return LogPage(first=start, lines=tuple(islice(lines, most)), total=total)

    def search(self, log: TaskLog, attempt: Attempt, words: str) -> Iterator[tuple[int, str]]:
        """Yield the lines that contain the words, with their numbers."""
        wanted = words.lower()
        for number, line in enumerate(self._list_lines(log, attempt), 1):
            if wanted in line.lower():
                yield number, line

    def _list_lines(self, log: TaskLog, attempt: Attempt) -> Iterator[str]:
        try:
            yield from self._lines(log, attempt, 0)
        except OutputAway:
            yield from log.list_reported(attempt.number)

    def _count(self, log: TaskLog, attempt: Attempt) -> list[str]:
        """Count the lines since the last look; return the lines of an unended last line."""
        reader = copy.copy(self._end.reader)
        offset = self._end.offset
        for piece in _pieces(log, attempt, offset, ended=False):
            reader = reader or log.reader(piece.adapter)
            for line in piece.lines:
                self._total += len(reader(line))
                offset = line.end
                if self._total >= self._marks[-1].line + _MARK:
                    self._marks.append(_Mark(self._total, offset, copy.copy(reader)))
        self._end = _Mark(self._total, offset, reader)
        if attempt.ended is None:
            return []
        return list(_texts(log, attempt, self._end))

    def _lines(self, log: TaskLog, attempt: Attempt, skipped: int) -> Iterator[str]:
        mark = next(mark for mark in reversed(self._marks) if mark.line <= skipped)
        return islice(_texts(log, attempt, mark), skipped - mark.line, None)


def _read_reported(log: TaskLog, attempt: Attempt, first: int | None, most: int) -> LogPage:
    """Return a page of the lines that were reported from another host."""
    lines = [] if log.plain else log.list_reported(attempt.number)
    if not lines:
        raise log.miss_output(attempt)
    start = _find_start(len(lines), first, most)
    page = tuple(lines[start - 1 : start - 1 + most])
    return LogPage(first=start, lines=page, total=len(lines))


def _find_start(total: int, first: int | None, most: int) -> int:
    return max(1, total - most + 1) if first is None else max(1, first)


def _texts(log: TaskLog, attempt: Attempt, mark: _Mark) -> Iterator[str]:
    reader = copy.copy(mark.reader)
    for piece in _pieces(log, attempt, mark.offset, ended=attempt.ended is not None):
        reader = reader or log.reader(piece.adapter)
        for line in piece.lines:
            yield from reader(line)


def _pieces(log: TaskLog, attempt: Attempt, offset: int, *, ended: bool) -> Iterator[OutputPiece]:
    name = AttemptName(task=attempt.task, number=attempt.number)
    while True:
        piece = log.read_output(name, offset=offset, ended=ended)
        if piece is None:
            raise OutputAway(str(log.miss_output(attempt)))
        if not piece.lines:
            return
        yield piece
        offset = piece.lines[-1].end


class LogShelf:
    """The marks of the logs that were looked at lately."""

    def __init__(self) -> None:
        self._pages: OrderedDict[tuple[int, int, str], LogPages] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, attempt: Attempt, stream: str) -> LogPages:
        key = (attempt.task, attempt.number, stream)
        with self._lock:
            pages = self._pages.pop(key, None) or LogPages()
            self._pages[key] = pages
            if len(self._pages) > _KEPT:
                self._pages.popitem(last=False)
            return pages
