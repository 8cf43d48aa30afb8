"""The team of a task: its entrants, the steps of the choice, and a button for each candidate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.formats import count, dollars, duration, first_line
from weft.model import Task
from weft.page.act_forms import act_button
from weft.page.markup import Html, Part, joined, link, table, tag, tr
from weft.store.team_views import EntrantView, StepView, TeamView
from weft.words import ENTRANT_RESULTS, full_label

_HEADS: Final = ("Entrant", "Result", "Diff", "New tests", "Time", "Cost")


def render_team(team: TeamView, task: Task, *, may_choose: bool) -> Html:
    """Show a team; `may_choose` adds the buttons to entrants that have a candidate."""
    choose = may_choose and team.state in ("open", "undecided")
    heads = (*_HEADS, "Choose") if choose else _HEADS
    rows = [tr(*_cells(entrant, team, task, choose=choose)) for entrant in team.entrants]
    steps = [tr(*_step(step)) for step in team.steps]
    return joined(
        tag("p", _summary(team), class_="dim"),
        table(heads, rows, caption="Entrants"),
        table(("Step", "Left", "Out"), steps, caption="Steps of the choice") if steps else None,
    )


def _summary(team: TeamView) -> str:
    chosen = "" if team.winner is None else f"; entrant {team.winner} was chosen"
    return f"{team.strategy}, {count(len(team.entrants), 'entrant')}{chosen}."


def _cells(entrant: EntrantView, team: TeamView, task: Task, *, choose: bool) -> Iterator[Part]:
    star = " ★" if entrant.number == team.winner else ""
    yield link(f"task/{entrant.task}", f"{entrant.number} {entrant.agent}{star}")
    result = ENTRANT_RESULTS[entrant.result]
    yield f"{result}: {first_line(entrant.report)}" if entrant.report else result
    lines = count(entrant.lines, "line") if entrant.lines else "open"
    yield link(f"diff/{entrant.task}", lines) if entrant.commit else "no change"
    yield str(len(entrant.tests))
    yield duration(entrant.seconds)
    yield dollars(entrant.micro_usd)
    if choose and entrant.commit:
        yield act_button(
            "choose",
            f"Choose {entrant.number}",
            f"weft choose {full_label(task)} {entrant.number}",
            {"task": task.id, "entrant": entrant.number},
        )
    elif choose:
        yield ""


def _step(step: StepView) -> Iterator[Part]:
    yield step.step
    yield ", ".join(map(str, step.left)) or "none"
    yield "; ".join(f"{number} {reason}" for number, reason in step.out.items())
