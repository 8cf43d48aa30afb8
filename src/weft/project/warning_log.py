"""Warnings on standard error: each repeated rarely, without secrets."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Final

from weft.errors import Unauthenticated
from weft.redaction import Redactor, list_secrets

_AGAIN: Final = 60.0  # seconds


class OnceInAWhile(logging.Filter):
    """Filter that passes a repeated warning only once in a while."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text, now = record.getMessage(), time.monotonic()
        if now < self._said.get(text, now):
            return False
        self._said[text] = now + _AGAIN
        return True


class EndedToken(logging.Filter):
    """Filter that drops the warnings about a token that the server has ended.

    Each loop of a worker meets it; the command ends with the same error, and says it once.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        causes = [*record.args] if isinstance(record.args, tuple) else []
        if record.exc_info:
            causes.append(record.exc_info[1])
        return not any(isinstance(cause, Unauthenticated) for cause in causes)


class Redaction(logging.Filter):
    """Filter that removes secrets from log records, tracebacks included."""

    def __init__(self, hide: Redactor) -> None:
        super().__init__()
        self._hide = hide

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        clean = self._hide.redact_text(text)
        if clean is not text:
            record.msg, record.args = clean, None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self._hide.redact_text(record.exc_text)
        return True


def show_warnings(environment: Mapping[str, str] = os.environ) -> None:
    """Send warnings to standard error, unless logging is configured already.

    WEFT_DEBUG=1 sends weft's notes about its decisions, too.
    """
    if logging.getLogger().handlers:
        return
    logging.basicConfig(format="weft: %(message)s", level=logging.WARNING)
    if environment.get("WEFT_DEBUG", "0") not in ("", "0"):
        logging.getLogger("weft").setLevel(logging.DEBUG)
    for handler in logging.getLogger().handlers:
        handler.addFilter(EndedToken())  # before redaction, which may drop the error itself
    hide_in_logs(Redactor(list_secrets(environment)))
    for handler in logging.getLogger().handlers:
        handler.addFilter(OnceInAWhile())


def hide_in_logs(hide: Redactor) -> None:
    for handler in logging.getLogger().handlers:
        handler.addFilter(Redaction(hide))
