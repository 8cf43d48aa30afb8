"""Generated histories of patches that depend on each other through the files they share."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from repositories import commit_all, git

FILES = [f"src/part{number}.txt" for number in range(9)]


def file_sets(seed: int, count: int) -> list[tuple[str, ...]]:
    """Return the files of each patch: one to three, some of them popular."""
    dice = random.Random(seed)
    weights = [5, 3, 3, 2, 2, 2, 1, 1, 1]
    return [
        tuple(sorted(set(dice.choices(FILES, weights, k=dice.randint(1, 3))))) for _ in range(count)
    ]


def first_files() -> dict[str, str]:
    return {name: "".join(f"{name} line {n}\n" for n in range(8)) for name in FILES}


def write_patches(root: Path, patches: Path, sets: Sequence[Sequence[str]]) -> str:
    """Commit the patches one after the other in a clone; return the tree they lead to.

    Each patch adds a line behind that of the patch before it and changes that one, so it applies
    to no other state of its files. Patch N is `1.N.patch`, as the task N of a plan's first phase.
    """
    clone = patches.with_name("history")
    git(patches.parent, "clone", "-q", str(root), str(clone))
    patches.mkdir()
    for number, files in enumerate(sets, 1):
        for name in files:
            path = clone / name
            lines = path.read_text().splitlines()
            lines[-2] = f"{lines[-2]}, seen by patch {number}"
            lines.insert(-1, f"patch {number}")
            path.write_text("\n".join(lines) + "\n")
        commit_all(clone, f"patch {number}")
        (patches / f"1.{number}.patch").write_text(git(clone, "diff", "HEAD~1", "HEAD"))
    return git(clone, "rev-parse", "HEAD:src").strip()
