"""A sleep for interpreters under faketime, whose library refuses the call that `time.sleep` makes
(clock_nanosleep with an absolute time) while monotonic clocks are not faked."""

from __future__ import annotations

import select
import time


def _sleep(seconds: float, /) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep  # type: ignore[assignment]  # a float is enough here
