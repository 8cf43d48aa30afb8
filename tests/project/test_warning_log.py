"""Warnings: loops that meet an ended token leave it to their command to say so."""

from __future__ import annotations

import logging
import sys

import pytest

from weft.errors import NoAnswer, Unauthenticated
from weft.project.warning_log import EndedToken


@pytest.mark.parametrize(("error", "shown"), [(Unauthenticated(), False), (NoAnswer(), True)])
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
