"""Warnings: loops that meet an ended token leave it to their command to say so."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

from cases import each_case
from weft.errors import NoAnswer, Unauthenticated
from weft.project.warning_log import EndedToken


@each_case(("error", "shown"), [(Unauthenticated(), False), (NoAnswer(), True)])
def test_a_warning_about_an_ended_token_is_left_to_the_command(
    error: Exception, shown: bool
) -> None:
    def is_shown(text: str, *args: object, exc_info: object = None) -> bool:
        record = logging.LogRecord("x", logging.WARNING, "", 1, text, args, exc_info)  # type: ignore[arg-type]  # as logging gives it
        return bool(EndedToken().filter(record))

    assert is_shown("task %s stays: %s", 1, error) is shown
    try:
        raise error
    except (Unauthenticated, NoAnswer):
        assert is_shown("a loop broke", exc_info=sys.exc_info()) is shown
    assert is_shown("nothing is wrong")


PROGRAM = """
import logging
from weft.project.warning_log import show_warnings
show_warnings()
logging.getLogger("weft.x").info("run r has ended, ghp_%s", "a" * 36)
logging.getLogger("y").info("of a library")
"""


@each_case(
    ("value", "shown"), [(None, ""), ("0", ""), ("1", "weft: run r has ended, ghp_[hidden]\n")]
)
def test_weft_debug_shows_notes_about_decisions_without_secrets(
    value: str | None, shown: str
) -> None:
    environment = {**os.environ} if value is None else {**os.environ, "WEFT_DEBUG": value}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == shown
