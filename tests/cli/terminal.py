"""A terminal that tests can look at: a pseudo-terminal, and an emulator behind it."""

from __future__ import annotations

import contextlib
import copy
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyte

from wait_until import PATIENCE

_ALTERNATE = 1049 << 5  # as pyte numbers private modes
_LOGIN = """
import os, sys
os.login_tty(int(sys.argv[1]))
os.execvp(sys.argv[2], sys.argv[2:])
"""


class _Screen(pyte.Screen):
    """pyte's, with the second page that full-screen programs draw on."""

    def __init__(self, columns: int, lines: int) -> None:
        self._page: Any = None
        super().__init__(columns, lines)

    @property
    def alternate(self) -> bool:
        return self._page is not None

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        super().set_mode(*modes, **kwargs)
        if _ALTERNATE in self.mode and self._page is None:
            self._page = copy.deepcopy(self.buffer), copy.copy(self.cursor)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        super().reset_mode(*modes, **kwargs)
        if _ALTERNATE not in self.mode and self._page is not None:
            hidden = self.cursor.hidden
            self.buffer, self.cursor = self._page
            self.cursor.hidden = hidden
            self._page = None


class Terminal:
    """Runs a program on a terminal of its own."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        directory: Path,
        environment: Mapping[str, str],
        columns: int = 100,
        lines: int = 30,
    ) -> None:
        self.raw = bytearray()
        self._screen = _Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._master, self._slave = os.openpty()
        self._set_size(columns, lines)
        self.keys = termios.tcgetattr(self._slave)
        self.process = subprocess.Popen(
            [sys.executable, "-IS", "-c", _LOGIN, str(self._slave), *command],
            cwd=directory,
            env={"TERM": "xterm-256color", **environment},
            pass_fds=[self._slave],
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._slave)  # the reader sees the end
        self._reader.join(timeout=5)
        os.close(self._master)

    def text(self) -> str:
        with self._lock:
            return "\n".join(line.rstrip() for line in self._screen.display)

    @property
    def alternate(self) -> bool:
        with self._lock:
            return self._screen.alternate

    @property
    def cursor_hidden(self) -> bool:
        with self._lock:
            return bool(self._screen.cursor.hidden)

    def keys_now(self) -> list[Any]:
        """How the terminal treats what is typed."""
        return termios.tcgetattr(self._slave)

    def wait(self, condition: Callable[[str], object], seconds: float = PATIENCE) -> str:
        """The screen, as soon as it is so."""
        end = time.monotonic() + seconds
        while not condition(text := self.text()):
            assert time.monotonic() < end, f"it never showed:\n{text}"
            time.sleep(0.02)
        return text

    def wait_for(self, *words: str) -> str:
        return self.wait(lambda text: all(word in text for word in words))

    def wait_end(self, seconds: float = PATIENCE) -> int:
        code = self.process.wait(seconds)
        # What it wrote last may still be on its way through the terminal.
        size = -1
        while size != len(self.raw):
            size = len(self.raw)
            time.sleep(0.1)
        return code

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def resize(self, columns: int, lines: int) -> None:
        with self._lock:
            self._screen.resize(lines, columns)
            self._set_size(columns, lines)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._master, 65536):
                with self._lock:
                    self.raw += data
                    self._stream.feed(data)
