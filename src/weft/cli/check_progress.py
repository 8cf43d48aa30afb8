"""The display of a check that is tried: a counter on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import os
import select
import sys
from types import TracebackType
from typing import Final, Self, TextIO

from weft.cli.output import WIDTH, printable
from weft.formats import duration, fit

_LONG: Final = 120.0  # seconds of a check after which a person is asked
_LINE: Final = 30.0  # seconds between two lines where there is no terminal
_CLEAR: Final = "\r\x1b[K"
_CURE: Final = "Name a quicker command as `run` under [gate] in weft.toml."


class CheckProgress:
    """A watch over a check; its question waits beside the check, which goes on meanwhile."""

    def __init__(
        self,
        begin: str,
        *,
        asks: bool = False,
        screen: TextIO | None = None,
        answers: TextIO | None = None,
    ) -> None:
        self._begin = begin  # the line before the check
        self._screen = screen or sys.stderr
        self._answers = answers or sys.stdin
        self._counts = self._screen.isatty()
        self._asks = asks and self._counts and self._answers.isatty()
        self._warns = asks
        self._waits = False  # for an answer
        self._shows = False  # the last line has a count
        self._next = _LINE

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._waits:
            self._write("\n")
        elif self._shows:
            self._write(_CLEAR)

    def __call__(self, seconds: float, line: str) -> bool:
        """Show the last line of the check after these seconds; return False to stop it."""
        if not seconds:
            self._write(f"{self._begin}\n")
        elif self._waits:
            return self._read_answer()
        elif self._warns and seconds >= _LONG:
            self._warns = False
            self._warn(seconds)
        else:
            self._show(seconds, line)
        return True

    def _show(self, seconds: float, line: str) -> None:
        text = fit(printable(f"  {duration(seconds)}  {line}"), WIDTH - 1).rstrip()
        if self._counts:
            self._shows = True
            self._write(_CLEAR + text)
        elif seconds >= self._next:
            self._next = seconds + _LINE
            self._write(f"{text}\n")

    def _warn(self, seconds: float) -> None:
        clear = _CLEAR if self._counts else ""
        runs = f"{clear}weft: the check has run for {duration(seconds)}"
        if self._asks:
            self._waits = True
            self._write(f"{runs}. {_CURE}\nGo on, or stop it? [G/s] ")
        else:
            self._write(f"{runs} and goes on; Ctrl-C stops it. {_CURE}\n")

    def _read_answer(self) -> bool:
        if not select.select([self._answers], [], [], 0)[0]:
            return True
        self._waits = False
        return not os.read(self._answers.fileno(), 100).strip().lower().startswith(b"s")

    def _write(self, text: str) -> None:
        self._screen.write(text)
        self._screen.flush()
