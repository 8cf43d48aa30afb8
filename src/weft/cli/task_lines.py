"""Lines about tasks for several commands: teams, silent workers, and workers that are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

from weft.cli.output import table_width, wrap_words
from weft.formats import count, dollars, duration, first_line, whole_line
from weft.host_labels import worker_command
from weft.model import Wait, Worker
from weft.process.process_identity import get_place
from weft.runs.host_list import explain_silence, is_dead_here
from weft.runs.task_diff import ComparedEntrant, TeamComparison
from weft.store.team_rows import EntrantView, TeamView
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


def list_comparison(comparison: TeamComparison, width: int) -> Iterator[str]:
    """Yield the entrants of a team, the steps of the choice and the diffs side by side."""
    yield f"task {comparison.name}: {comparison.title}"
    if comparison.reason:
        yield whole_line(comparison.reason)
    yield describe_team(comparison.team)
    yield from list_entrants(comparison.team)
    if comparison.team.steps:
        yield "choice"
    yield from list_steps(comparison.team)
    yield from list_diffs(comparison.entrants, width)


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


def list_silence_lines(worker: Worker) -> list[str]:
    text = explain_silence(worker, get_place(), gone=is_dead_here(worker))
    width = table_width()
    return [*wrap_words(f"  ! {text.fact}", width), *wrap_words(f"      {text.advice}", width)]


def list_advice(waits: Iterable[Wait], find_server: Callable[[], str]) -> Iterator[str]:
    """Yield the command that starts each missing worker, with the address of a server if any."""
    for wait in waits:
        if wait.kind == "label":
            labels = wait.subject.split(",")
            command = worker_command(labels, find_server())
            noun = "label" if len(labels) == 1 else "labels"
            yield f"start it on a machine that has the {noun}: `{command}`"
