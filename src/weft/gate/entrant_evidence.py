"""Evidence about the candidates of a team: the size of a diff, new tests, and tests of others."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from weft import git
from weft.git.trees import ChangeKind, compare_trees, make_patch
from weft.teams.test_files import is_test_file


class CandidateMeasure(Struct, frozen=True, kw_only=True):
    tree: str  # of the candidate
    lines: int  # added and removed
    tests: tuple[str, ...]  # test files that it added


def measure(root: Path, base: str, candidate: str) -> CandidateMeasure:
    """Measure the change between two commits."""
    added = [
        change.path
        for change in compare_trees(root, base, candidate)
        if change.kind in (ChangeKind.ADDED, ChangeKind.RENAMED)
    ]
    patch = make_patch(root, base, candidate).splitlines()
    lines = sum(
        line[:1] in (b"+", b"-") and not line.startswith((b"+++ ", b"--- ")) for line in patch
    )
    tree = git.get_commit(root, candidate).tree
    return CandidateMeasure(tree=tree, lines=lines, tests=tuple(filter(is_test_file, added)))
