"""A process that goes through the lives of workspaces until it is killed.

Writes down each text only after it was written into a workspace, so that whatever stands in
the notes must be found somewhere afterwards.
"""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

from repositories import AUTHOR, DATE, TRAILERS, commit_all
from weft import workspace
from weft.workspace import branch_ref


def main(root: Path, name: str, notes: Path, seed: int) -> None:
    chance = random.Random(seed)
    with notes.open("a") as file:
        for number in itertools.count(1):
            place = workspace.prepare(root, branch_ref("r", name, number), "main")
            text = f"{name} {number}\n"
            (place.path / "a").write_text(text)
            file.write(text)
            file.flush()
            if chance.random() < 0.3:
                commit_all(place.path)
                (place.path / "a").write_text(f"again {text}")
            if chance.random() < 0.4:
                workspace.candidate(place, "x", author=AUTHOR, trailers=TRAILERS, date=DATE)
            if chance.random() < 0.8:
                workspace.release(place)
            else:
                place.close()
            if chance.random() < 0.3:
                workspace.clean(root)


main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
