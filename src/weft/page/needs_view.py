"""The view of decisions: a row for each, with the acts that settle it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft.formats import count, duration, first_line, listed
from weft.model import HUMAN
from weft.page.act_forms import act_button, act_form, bulk_button, limit_form, retry_form, text_area
from weft.page.markup import Html, Part, article, joined, link, since, tag
from weft.runs.attention import Decision
from weft.words import full_label, progress_text

_OUTSIDE: Final = re.compile(r"changed (\S[^;]*?), and may change only ")


class NeedsView(Struct, frozen=True, kw_only=True):
    decisions: Sequence[Decision]
    may_act: bool  # the token may decide
    agents: Sequence[str]  # that a task may be retried with
    runs: Mapping[str, Mapping[str, int]]  # unended runs: number of tasks by state
    ends: Mapping[str, float]  # seconds until each run has ended, estimated
    now: float


def render_needs(view: NeedsView) -> Html:
    if not view.decisions:
        return article("Needs you", _going_on(view))
    shown = count(len(view.decisions), "decision")
    return article(
        "Needs you",
        tag(
            "p", f"{shown} {'waits' if len(view.decisions) == 1 else 'wait'} for you.", class_="dim"
        ),
        _bulk_bar(view) if view.may_act else None,
        tag("ol", [_row(decision, view) for decision in view.decisions], class_="decisions"),
    )


def _going_on(view: NeedsView) -> Html:
    """Say what goes on while no decision waits."""
    if not view.runs:
        return joined(
            tag("p", "Nothing waits for you, and no run is under way."),
            tag(
                "p", tag("code", "weft run plan.md"), " starts one; ", link("plan", "Plan"), " too."
            ),
        )
    lines = []
    for run, counts in view.runs.items():
        seconds = view.ends.get(run)
        end = "" if seconds is None else f"; about {duration(seconds)} left"
        name = link(f"now?run={run}", run) if run else "Tasks of no run"
        lines.append(tag("li", name, f": {progress_text(counts)}{end}"))
    return joined(tag("p", "Nothing waits for you. This goes on:"), tag("ul", lines))


def _bulk_bar(view: NeedsView) -> Html | None:
    kinds = {decision.item.kind for decision in view.decisions}
    buttons: list[Html] = []
    if "question" in kinds:
        buttons.append(bulk_button("approve", "Approve picked", "weft answer TASK… --yes"))
    if kinds & {"blocked", "ended"}:
        buttons.append(bulk_button("retry", "Retry picked", "weft retry TASK…"))
        buttons.append(bulk_button("skip", "Skip picked", "weft skip TASK…"))
    if len(view.decisions) < 2 or not buttons:
        return None
    return tag("div", buttons, class_="bulk", role="group", aria_label="Acts on picked rows")


def _row(decision: Decision, view: NeedsView) -> Html:
    item, task = decision.item, decision.task
    id = f"need-{item.kind}-{item.task or item.about}"
    pick = view.may_act and task is not None and len(view.decisions) > 1
    box = tag("input", type="checkbox", data_pick=True, aria_label=f"Pick {item.subject}")
    subject: Part = item.subject if task is None else link(f"task/{task.id}", item.subject)
    title = "" if task is None or item.kind in ("question", "review") else _title(decision)
    return tag(
        "li",
        tag("h2", box if pick else None, subject, " ", tag("span", item.text, class_="text")),
        tag("p", title, class_="dim") if title else None,
        tag("p", _facts(decision, view.now), class_="facts"),
        tag("div", list(_acts(decision, view)), class_="acts") if view.may_act else None,
        id=id,
        class_=f"decision card {item.kind}",
        data_row=True,
        aria_label=f"{item.subject} {item.text}",
    )


def _title(decision: Decision) -> str:
    assert decision.task is not None
    return decision.task.request.title or first_line(decision.task.text)


def _facts(decision: Decision, now: float) -> Iterator[Part]:
    item = decision.item
    waits = count(decision.behind, "task")
    yield (
        f"{waits} {'waits' if decision.behind == 1 else 'wait'} behind it"
        if decision.behind
        else ("no task waits behind it")
    )
    if item.path_seconds:
        yield f" · {duration(item.path_seconds)} on the critical path"
    if item.since is not None:
        yield " · for "
        yield since(item.since, now)


def _acts(decision: Decision, view: NeedsView) -> Iterator[Html]:
    item, task = decision.item, decision.task
    match item.kind:
        case "drained":
            yield act_button(
                "drain", "Start tasks again", "weft drain --undo", {"undo": True}, key="a"
            )
        case "gate":
            yield act_button(
                "resume", "Resume", f"weft resume {item.about}", {"name": item.about}, key="a"
            )
        case "agent":
            command = f"weft agents resume {item.about}"
            yield act_button(
                "resume_agent", "Resume the agent", command, {"agent": item.about}, key="a"
            )
        case "budget" | "limit":
            label = "Raise the budget…" if item.kind == "budget" else "Raise the limit…"
            yield limit_form(item.about, item.enough, label, key="a")
        case "paused":
            yield act_button(
                "resume", "Resume", f"weft resume {item.about}", {"name": item.about}, key="a"
            )
        case "question":
            assert task is not None
            yield from _answers(decision)
        case "asked":
            assert task is not None
            yield from _options(decision)
            yield skip_button(decision)
        case "review":
            assert task is not None
            yield link(f"review/{task.id}", "Open the diff", class_="button", data_key="a")
        case _ if task is not None:
            yield from stuck_acts(decision, view.agents)


def _answers(decision: Decision) -> Iterator[Html]:
    task = decision.task
    assert task is not None
    name = full_label(task)
    yield act_button("approve", "Approve", f"weft answer {name} --yes", {"task": task.id}, key="a")
    yield act_form(
        "reject",
        "Reject…",
        f'weft answer {name} --no "…"',
        {"task": task.id},
        text_area("text", "Reason", draft=f"reject-{task.id}", required=True),
        key="r",
    )
    yield skip_button(decision)


def _options(decision: Decision) -> Iterator[Html]:
    """Make a button for each option, by its number, and a form for any other answer."""
    task = decision.task
    assert task is not None
    command = f"weft answer {full_label(task)}"
    for number, option in enumerate(decision.options, 1):
        fields = {"task": task.id, "text": str(number)}
        label = f"{number} {first_line(option)}"
        yield act_button(
            "answer", label, f"{command} {number}", fields, key="a" if number == 1 else ""
        )
    yield act_form(
        "answer",
        "Answer…",
        f'{command} "…"',
        {"task": task.id},
        text_area("text", "Answer", draft=f"answer-{task.id}", required=True),
        key="r",
    )


def find_wanted_files(reason: str) -> list[str]:
    """Return the files that an agent changed and may not change, from the reason of its failure."""
    match = _OUTSIDE.search(reason)
    return [] if match is None else re.split(r", | and ", match[1])


def stuck_acts(decision: Decision, agents: Sequence[str]) -> Iterator[Html]:
    task = decision.task
    assert task is not None
    name = full_label(task)
    if decision.item.kind != "worker" and task.agent != HUMAN:
        yield retry_form(task, agents, "Note or answer for the agent")
        files = find_wanted_files(task.reason)
        if files:
            command = f"weft retry {name} " + " ".join(f"--file {file}" for file in files)
            label = f"Grant {listed(files)}"
            yield act_button("retry", label, command, {"task": task.id, "files": files}, key="a")
    elif decision.item.kind != "worker":
        yield act_button("retry", "Ask again", f"weft retry {name}", {"task": task.id}, key="r")
    yield skip_button(decision)
    yield link(f"task/{task.id}", "Open the task", class_="button")
    if task.request.team is not None:
        yield link(f"task/{task.id}/team", "Compare the candidates", class_="button")
    else:
        yield link(f"diff/{task.id}", "Open the diff", class_="button")


def skip_button(decision: Decision) -> Html:
    task = decision.task
    assert task is not None
    return act_button("skip", "Skip", f"weft skip {full_label(task)}", {"task": task.id}, key="s")
