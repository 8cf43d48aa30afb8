"""Teams as lines for people: entrants, the steps of the choice, and diffs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from weft.formats import count, dollars, duration, first_line
from weft.runs.task_diff import ComparedEntrant
from weft.store.team_views import EntrantView, TeamView
from weft.words import ENTRANT_RESULTS

_NARROWEST: Final = 36  # columns of a diff
_LINES: Final = 200  # of each diff


def describe_team(team: TeamView) -> str:
    won = "" if team.winner is None else f", entrant {team.winner} was chosen"
    return f"team: {team.strategy}, {count(len(team.entrants), 'entrant')}{won}"


def list_entrants(team: TeamView) -> Iterator[str]:
    for entrant in team.entrants:
        yield f"  {_sign(entrant, team)} {entrant.number} {entrant.agent}: {_fate(entrant)}"


def list_steps(team: TeamView) -> Iterator[str]:
    for step in team.steps:
        left = ", ".join(map(str, step.left)) or "none"
        gone = "; ".join(f"{number} {reason}" for number, reason in step.out.items())
        yield f"  {step.step}: {left} left{f' ({gone})' if gone else ''}"


def _sign(entrant: EntrantView, team: TeamView) -> str:
    if entrant.number == team.winner:
        return "★"
    return {"green": "✓", "open": "·"}.get(entrant.result, "✗")


def _fate(entrant: EntrantView) -> str:
    parts = [ENTRANT_RESULTS.get(entrant.result, entrant.result)]
    if entrant.result == "open":
        parts.append(entrant.state)
    if entrant.lines:
        parts.append(count(entrant.lines, "changed line"))
    if entrant.tests:
        parts.append(count(len(entrant.tests), "new test file"))
    if entrant.seconds:
        parts.append(duration(entrant.seconds))
    if entrant.micro_usd:
        parts.append(dollars(entrant.micro_usd))
    if entrant.report:
        parts.append(first_line(entrant.report))
    return ", ".join(parts)


def list_diffs(entrants: Sequence[ComparedEntrant], width: int) -> Iterator[str]:
    """Return the diffs in columns, or below each other if the columns would be too narrow; then
    name the entrants without a change."""
    shown = [entrant for entrant in entrants if entrant.patch]
    room = max(1, width // (_NARROWEST + 2))
    for start in range(0, len(shown), room):
        row = shown[start : start + room]
        column = max(_NARROWEST, (width - 2 * (len(row) - 1)) // len(row))
        yield ""
        yield from _columns([_diff_lines(entrant) for entrant in row], column)
    unchanged = [compared.entrant for compared in entrants if not compared.patch]
    if unchanged:
        yield ""
    for entrant in unchanged:
        yield f"ENTRANT {entrant.number} ({entrant.agent}), no changes"


def _diff_lines(compared: ComparedEntrant) -> list[str]:
    entrant = compared.entrant
    lines = compared.patch.splitlines()
    more = [f"… {len(lines) - _LINES} more: weft diff {entrant.name}"] * (len(lines) > _LINES)
    head = [f"ENTRANT {entrant.number} ({entrant.agent}), {count(len(compared.files), 'file')}"]
    return [*head, *(line for line in lines[:_LINES] if not line.startswith("index ")), *more]


def _columns(texts: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    for cells in zip_longest(*texts, fillvalue=""):
        fitted = [_fit(cell.replace("\t", "    "), width) for cell in cells]
        yield "  ".join(fitted).rstrip()


def _fit(text: str, width: int) -> str:
    return text[: width - 1] + "…" if len(text) > width else text.ljust(width)
