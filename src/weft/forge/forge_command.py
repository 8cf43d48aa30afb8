"""Calls of the forge's tools, repeated while the forge is away or asks for patience."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from weft import process
from weft.errors import Refused, WeftError
from weft.forge.forge_tools import ToolCall

log = logging.getLogger(__name__)

T = TypeVar("T")

PAUSES: Final = (1.0, 5.0, 15.0)
"""Seconds between tries while the forge is away."""

_SECONDS: Final = 120.0
_PASSING: Final = re.compile(
    r"rate limit|too many requests|HTTP (?:429|5\d\d)|error connecting|could not resolve|"
    r"dial tcp|no such host|connection (?:refused|reset|timed out)|timed? ?out|TLS handshake|"
    r"temporarily unavailable|bad gateway|unable to access|early EOF|remote end hung up",
    re.IGNORECASE,
)
_QUIET: Final = {
    "GH_PROMPT_DISABLED": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "NO_PROMPT": "1",  # of glab
    "NO_COLOR": "1",
    "CLICOLOR": "0",
}


class ForgeAway(WeftError):
    """The forge cannot be reached, or asks for patience."""


def call(
    called: ToolCall,
    *,
    directory: Path,
    environment: Mapping[str, str],
    pauses: Sequence[float] = PAUSES,
) -> str:
    """Run a tool of the user and return its output.

    Raise `ForgeAway` if the forge stays away over all tries, `Refused` with the tool's reason if
    the forge answers no.
    """

    def attempt() -> str:
        done = process.run(
            called.argv,
            directory=directory,
            environment={**environment, **_QUIET},
            input=called.input.encode(errors="replace"),
            seconds=_SECONDS,
        )
        if done.status == 0:
            return done.output
        raise Refused(f"{' '.join(called.argv[:3])} failed: {_reason(done)}")

    return be_patient(attempt, pauses=pauses)


def be_patient(attempt: Callable[[], T], *, pauses: Sequence[float] = PAUSES) -> T:
    """Try until the forge is there; raise any other failure at once."""
    for pause in (*pauses, None):
        try:
            return attempt()
        except WeftError as error:
            if not _PASSING.search(str(error)):
                raise
            if pause is None:
                raise ForgeAway(
                    f"The forge is away or asks for patience: {error} The same command again goes "
                    "on from here."
                ) from error
            log.warning("the forge is away, next try in %g s: %s", pause, error)
            time.sleep(pause)
    raise AssertionError("the last try returns or raises")


def _reason(done: process.Completed) -> str:
    lines = [line for line in (done.errors or done.output).splitlines() if line.strip()]
    text = " ".join(line.strip() for line in lines[:3]) or f"it ended with {done.status}"
    return text if text.endswith((".", "!")) else f"{text}."
