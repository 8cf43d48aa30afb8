"""Warnings of what goes on in the background, each of them once in a while."""

from __future__ import annotations

import logging
import time
from typing import Final

_AGAIN: Final = 60.0  # seconds


class _OnceInAWhile(logging.Filter):
    """What goes wrong is tried again and again; it need not be said as often."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text, now = record.getMessage(), time.monotonic()
        if now < self._said.get(text, now):
            return False
        self._said[text] = now + _AGAIN
        return True


def show_warnings() -> None:
    """On standard error. Doing it twice is doing it once."""
    if logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("weft: %(message)s"))
    handler.addFilter(_OnceInAWhile())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
