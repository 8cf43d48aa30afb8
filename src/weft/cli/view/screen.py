"""The terminal of the live view: lines at their places, restored at the end.

Only changed lines are written, so the screen does not flicker. The view has the alternate screen
to itself; weft's log lines are kept and printed at the end.
"""

from __future__ import annotations

import io
import logging
import os
import select
import signal
import sys
import termios
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

import click
from rich.console import Console
from rich.text import Text

from weft.cli.output import printable

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J\x1b[H"
_LEAVE: Final = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_KEPT: Final = 100  # lines of the log that are printed in the end


def is_possible() -> bool:
    """Tell whether standard output is a terminal that this process may draw on."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return False
    try:
        return os.tcgetpgrp(sys.stdout.fileno()) == os.getpgrp()
    except OSError:
        return False


class Screen:
    def __init__(self) -> None:
        self._console = Console(
            file=io.StringIO(), force_terminal=True, markup=False, highlight=False, emoji=False
        )
        self._lock = threading.RLock()  # reentrant: SIGTSTP interrupts a thread that draws
        self._shown: list[Text] = []
        self._size = (0, 0)
        self._mode: list[object] | None = None
        self._on = False

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        try:
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            return 80, 24
        return columns or 80, lines or 24

    def show(self, lines: Sequence[Text]) -> None:
        """Write the lines that have changed."""
        with self._lock:
            if not self._on:
                return
            size = self.size()
            out = ""
            if size != self._size:
                self._size, self._shown, out = size, [], "\x1b[2J"
            for row, line in enumerate(lines):
                if row >= len(self._shown) or self._shown[row] != line:
                    # At the right edge, erasing the rest would take the last letter with it.
                    rest = "\x1b[K" if line.cell_len < size[0] else ""
                    out += f"\x1b[{row + 1};1H{self._rendered(line)}\x1b[0m{rest}"
            for row in range(len(lines), len(self._shown)):
                out += f"\x1b[{row + 1};1H\x1b[K"
            self._shown = list(lines)
            self._write(out)

    def read_keys(self) -> str:
        """Return the keys typed since the last call; none if standard input is no terminal."""
        with self._lock:
            if not self._on or self._mode is None:
                return ""
            try:
                descriptor = sys.stdin.fileno()
                ready, _, _ = select.select([descriptor], [], [], 0)
                return os.read(descriptor, 64).decode(errors="ignore") if ready else ""
            except (OSError, ValueError):
                return ""

    def ring(self, text: str) -> None:
        """Ring the terminal's bell, and send a desktop notification where OSC 9 is known."""
        with self._lock:
            if self._on:
                self._write(f"\x07\x1b]9;{printable(text)}\x07")

    def enter(self) -> None:
        with self._lock:
            self._on, self._size = True, (0, 0)
            self._silence_keys()
            self._write(_ENTER)

    def leave(self) -> None:
        with self._lock:
            if self._on:
                self._write(_LEAVE)
                self._on = False
                self._restore_keys()

    def _rendered(self, line: Text) -> str:
        self._console.begin_capture()
        self._console.print(line, end="", no_wrap=True, overflow="ignore", crop=False)
        return self._console.end_capture()

    def _write(self, text: str) -> None:
        """Write to the terminal; without a terminal stop drawing, not the run."""
        if not text:
            return
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            self._on = False

    def _silence_keys(self) -> None:
        """Hide typed characters; Ctrl-C and Ctrl-Z work as always."""
        with suppress(OSError, ValueError, termios.error):
            descriptor = sys.stdin.fileno()
            self._mode = termios.tcgetattr(descriptor)
            silent = termios.tcgetattr(descriptor)
            silent[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(descriptor, termios.TCSADRAIN, silent)

    def _restore_keys(self) -> None:
        if self._mode is not None:
            with suppress(OSError, ValueError, termios.error):
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._mode)  # type: ignore[arg-type]
            self._mode = None


@contextmanager
def open_screen(log: deque[str]) -> Iterator[Screen]:
    """Open a screen while the block lasts; `log` gets weft's log lines."""
    screen = Screen()

    def stop(_number: int, _frame: FrameType | None) -> None:
        screen.leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        screen.enter()

    with _handling(signal.SIGTSTP, stop), _handling(signal.SIGTERM, _end), _logging_to(log):
        screen.enter()
        try:
            yield screen
        finally:
            screen.leave()


def _end(number: int, _frame: FrameType | None) -> None:
    """End at SIGTERM before or after the loops, which handle it themselves."""
    sys.exit(128 + number)


@contextmanager
def _handling(
    number: signal.Signals, handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def _logging_to(log: deque[str]) -> Iterator[None]:
    """Log to the view, and print the log lines afterwards."""
    keeper = _Keeper(log)
    root = logging.getLogger()
    before = root.handlers[:]
    root.handlers[:] = [keeper]
    try:
        yield
    finally:
        root.handlers[:] = before
        for line in keeper.kept:
            with suppress(OSError):
                click.echo(line, err=True)


class _Keeper(logging.Handler):
    def __init__(self, log: deque[str]) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter("weft: %(message)s"))
        self.kept: deque[str] = deque(maxlen=_KEPT)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        self.kept.append("\n".join(map(printable, text.splitlines())))
        self._log.append(printable(text.splitlines()[0]))
