"""How the steering commands answer: a sentence for people, the same as JSON for programs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from weft.cli.output import print_json, say

if TYPE_CHECKING:
    from weft.runs.control import ControlResult
    from weft.store import Store


def steer(directory: Path, verb: Callable[[Store, float], ControlResult], *, as_json: bool) -> None:
    """Carry out a verb on the project's store, now, and say what it came to."""
    from weft.project import project

    with project.find(directory, os.environ).open_store() as store:
        done = verb(store, time.time())
    if as_json:
        print_json({key: list(v) if isinstance(v, tuple) else v for key, v in asdict(done).items()})
    else:
        say(done.text)
