"""A `weft worker` that kills itself before a numbered step of its projections.

A step is an effect of a projection on the system: a file put into its place, a started program, a
removed directory of an ended program. The only argument is the number of the step.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from types import FrameType

from weft.cli import main

STEPS = itertools.count()
LAST = int(sys.argv[1])
EFFECTS = {"os.rename", "shutil.rmtree", "subprocess.Popen"}


def is_projection(frame: FrameType | None) -> bool:
    while frame is not None:
        if "/weft/worker/projections/" in frame.f_code.co_filename:
            return frame.f_code.co_name != "run"
        frame = frame.f_back
    return False


def count_effect(event: str, _: object) -> None:
    if event in EFFECTS and is_projection(sys._getframe(1)) and next(STEPS) == LAST:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.addaudithook(count_effect)
    sys.argv = ["weft", "worker", "--slots", "1"]
    main()
