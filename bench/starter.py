"""A process that prepares workspaces one after another and gives most of them back."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from weft import workspace
from weft.errors import WeftError
from weft.workspace import branch_ref


def main(root: Path, process: str, starts: int) -> int:
    """Return the number of workspaces that were ready, at their base and with every file."""
    good = 0
    for number in range(starts):
        try:
            place = workspace.prepare(root, branch_ref("bench", process, number), "main")
            at_base = (place.admin / "HEAD").read_text().strip() == place.base
            good += at_base and len(os.listdir(place.path / "d0")) == 100
            # Some are left behind, so that new ones are made all the time.
            place.close() if number % 8 == 7 else workspace.release(place)
        except (WeftError, OSError) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return good


print(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
