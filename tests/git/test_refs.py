"""References that weft moves."""

from __future__ import annotations

from pathlib import Path

from repositories import git, make_repository
from weft.git.refs import Update, update_refs


def test_a_moved_reference_is_recorded_without_a_look_at_the_name_of_the_machine(
    tmp_path: Path,
) -> None:
    """Without a name of its own git would ask DNS for that of the machine, and wait for it."""
    root = make_repository(tmp_path / "r")
    tip = git(root, "rev-parse", "HEAD").strip()
    update_refs(root, [Update(ref="refs/weft/x", old=None, new=tip)])
    assert git(root, "log", "-g", "-1", "--format=%gn <%ge>", "refs/weft/x") == (
        "weft <weft@localhost>\n"
    )
