"""The entrants of a team as lines: with and without a change."""

from __future__ import annotations

from weft.cli.task_lines import list_diffs
from weft.runs.task_diff import ComparedEntrant
from weft.store.team_rows import EntrantView


def compared(number: int, patch: str) -> ComparedEntrant:
    view = EntrantView(
        number=number, task=number, name=f"t/{number}", agent="claude", state="done",
        result="green", report="", lines=1, tests=(), attempts=1, seconds=1.0, tokens=0,
        micro_usd=0, commit="c", base="b",
    )  # fmt: skip
    return ComparedEntrant(entrant=view, files=("a",) if patch else (), patch=patch)


def test_an_entrant_without_a_change_is_named_beside_the_diffs() -> None:
    lines = list(list_diffs([compared(1, "+x\n"), compared(2, "")], 80))
    assert any(line.startswith("ENTRANT 1 (claude), 1 file") for line in lines)
    assert lines[-1] == "ENTRANT 2 (claude), no changes"
