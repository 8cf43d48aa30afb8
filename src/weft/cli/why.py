"""`weft why`"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click
from msgspec.structs import asdict

from weft.candidate_records import CheckVerdict
from weft.cli.command_arguments import pass_store, print_chosen_run, task_argument
from weft.cli.output import json_option, show
from weft.cli.task_lines import (
    describe_team,
    list_advice,
    list_entrants,
    list_silence_lines,
    list_steps,
)
from weft.formats import (
    bounded_line,
    clock,
    count,
    dollars,
    duration,
    first_sentence,
    listed,
    whole_line,
)
from weft.model import ASKED, Attempt
from weft.runs.event_text import line
from weft.runs.explanation import AtGate, Explanation, explain_task
from weft.runs.progress import list_outside
from weft.store import Store
from weft.words import describe_prediction, entry_word, full_label, task_state

_CURES: Final = {
    "blocked": ("weft retry", "weft skip"),
    "paused": ("weft resume",),
    "failed": ("weft retry", "weft skip"),
    "cancelled": ("weft retry",),
    "evicted": ("weft retry",),
}
_PURPOSES: Final = {"retry": "repeated check", "blame": "check for the cause"}
_LINES: Final = 20  # of a conflict's or a failed check's report


@click.command(name="why")
@task_argument
@json_option
@pass_store
def command(store: Store, name: str, as_json: bool) -> None:
    """Show where a task is, since when, and why it waits.

    For a ready task also its place in the order; for a task at the gate its checks and conflicts,
    with the failed command, its last lines and a shell line that runs it again; and the events
    before.
    """
    now = time.time()
    why = explain_task(store, name, now=now)
    print_chosen_run(store, name, why.task.id)
    more = f"weft why {full_label(why.task)} --json"
    shown = (bounded_line(line, more) for line in lines(why, now, store.find_server))
    show(as_dict(why), shown, as_json=as_json)


def lines(why: Explanation, now: float, server: Callable[[], str] = str) -> Iterator[str]:
    """Yield the explanation; `server` returns the address that advice names, or ''."""
    task = why.task
    name = full_label(task)
    yield f"task {name}: {task.request.title or first_sentence(task.text)}"
    yield f"{task_state(task)} since {clock(task.since)}, for {duration(now - task.since)}" + (
        f": {whole_line(task.reason)}" if task.reason else ""
    )
    if task.until is not None:
        yield f"  goes on in {duration(max(0.0, task.until - now))}"
    running = why.attempts[-1] if why.attempts and why.attempts[-1].ended is None else None
    if running is not None:
        yield f"  attempt {running.number} by {running.agent} at {running.worker}"
    holder = why.holder
    if holder is not None and holder.left is not None:
        yield f"  ! that worker left at {clock(holder.left)}; the task starts again as soon as its"
        yield "    agent cannot run any more"
    elif holder is not None and holder.silent_since is not None:
        yield from list_silence_lines(holder)
    if why.hops:
        agents = " → ".join([why.hops[0].giver, *(hop.agent for hop in why.hops)])
        yield f"  handed over {count(len(why.hops), 'time')}: {agents}"
    if task.state == "blocked" and why.attempts and why.attempts[-1].outcome == ASKED:
        yield f"  asks you: `weft answer {name} TEXT`"
    elif task.state in _CURES:
        cures = " or ".join(f"`{cure} {name}`" for cure in _CURES[task.state])
        yield f"  needs you: {cures}"
    else:
        yield from (f"  {wait.text}" for wait in why.waits)
        yield from (f"    {advice}" for advice in list_advice(why.waits, server))
    yield from (f"  {obstacle}" for obstacle in why.obstacles)
    if task.state == "ready" and not why.waits:
        yield "  starts next: the next free worker takes it"
    if task.request.predicted:
        yield f"files are predicted: {describe_prediction(task.request.predicted)}"
    outside = list(list_outside(why.events))
    if outside:
        yield f"also changed {listed(outside)}: outside its files, which no other task held"
    if why.place is not None:
        behind = f", right behind {', '.join(why.place.ahead_names)}" if why.place.ahead else ""
        yield f"place {why.place.number} of {why.place.of} ready{behind}"
        yield f"  because of: {why.place.reason}"
    if why.gate is not None:
        yield from _gate_lines(why.gate, now)
    if why.team is not None:
        yield describe_team(why.team)
        yield from list_entrants(why.team)
        yield from list_steps(why.team)
    if why.attempts or why.events:
        yield ""
        yield "before"
        yield from _history_lines(why)


def _gate_lines(gate: AtGate, now: float) -> Iterator[str]:
    state = entry_word(gate.entry.state)
    if gate.check is not None:
        together = [gate.names[id] for id in gate.check.entries if id != gate.entry.id]
        beside = f", together with {listed(together)}" if together else ""
        where = f" on {gate.check.host}" if gate.check.host else ""
        yield f"gate: being checked now{where}, for {duration(now - gate.check.since)}{beside}"
    elif gate.number is not None:
        alone = ", tested alone" if gate.entry.alone else ""
        yield f"gate: {state}, place {gate.number} of {gate.of}{alone}"
    else:
        yield f"gate: {state}"
    if gate.blocked:
        yield f"  the gate needs you: {whole_line(gate.blocked)}"
    for verdict in gate.verdicts:
        yield from _verdict_lines(gate, verdict)
    for conflict in gate.conflicts:
        names = ", ".join(gate.names.get(entry, entry) for entry in conflict.after)
        yield f"  ✗ does not merge after {names or 'the landed tasks'}"
        yield from (f"      {line}" for line in conflict.report.splitlines()[:_LINES])


def _verdict_lines(gate: AtGate, verdict: CheckVerdict) -> Iterator[str]:
    mark = "✓" if verdict.passed else "✗"
    tasks = ", ".join(gate.names.get(entry, entry) for entry in verdict.combination)
    where = f" on {verdict.host}" if verdict.host else ""
    took = f" in {duration(verdict.seconds)}{where}" if verdict.seconds else ""
    if not verdict.checked:
        yield f"  no check is configured for {tasks}"
        return
    had = "failed" if verdict.passed else "passed"
    flaky = f": flaky, the same check {had} before" if verdict.number in gate.flaky else ""
    purpose = _PURPOSES.get(verdict.purpose, "check")
    yield f"  {mark} {purpose} of {tasks}{took}{flaky}"
    if verdict.passed:
        return
    again = gate.reproductions.get(verdict.number)
    if again is not None:
        yield f"    failed: {again.command}"
    yield from (f"      {line}" for line in gate.outputs[verdict.number].splitlines()[-_LINES:])
    if again is not None:
        yield f"    reproduce: {again.line}"


def _history_lines(why: Explanation) -> Iterator[str]:
    history: list[tuple[float, str, Sequence[str]]] = [
        (attempt.started, _describe_attempt(attempt, why.hosts.get(attempt.worker)), ())
        for attempt in why.attempts
    ]
    history += [
        (event.at, text, event.data.get("changes", ()))
        for event in why.events
        if (text := line(event))
    ]
    for at, text, changes in sorted(history, key=lambda row: row[0]):
        yield f"  {clock(at)}  {text}"
        yield from (f"      {change}" for change in changes)


def _describe_attempt(attempt: Attempt, host: str | None) -> str:
    stage = f", {attempt.stage}" if attempt.stage not in (None, attempt.agent) else ""
    took = "" if attempt.ended is None else f", took {duration(attempt.ended - attempt.started)}"
    cost = f", {dollars(attempt.micro_usd)}" if attempt.micro_usd else ""
    where = f" on {host}" if host else ""
    return f"▶ attempt {attempt.number} ({attempt.agent or 'a person'}{stage}){where}{took}{cost}"


def as_dict(why: Explanation) -> dict[str, Any]:
    task = why.task
    return {
        "task": task.id,
        "run": task.run,
        "name": task.name,
        "state": task.state.value,
        "since": task.since,
        "reason": task.reason,
        "until": task.until,
        "predicted": task.request.predicted,
        "outside": list(list_outside(why.events)),
        "waits": why.waits,
        "obstacles": why.obstacles,
        "place": why.place,
        "gate": None if why.gate is None else _gate_dict(why.gate),
        "attempts": [
            {**asdict(attempt), "host": why.hosts.get(attempt.worker, "")}
            for attempt in why.attempts
        ],
        "team": why.team,
        "hops": why.hops,
        "silent_since": why.holder and why.holder.silent_since,
        "events": [{"id": e.id, "at": e.at, "kind": e.kind, **e.data} for e in why.events],
    }


def _gate_dict(gate: AtGate) -> dict[str, Any]:
    lines = {number: again.line for number, again in gate.reproductions.items()}
    return {
        "entry": gate.entry.id,
        "state": gate.entry.state,
        "place": gate.number,
        "of": gate.of,
        "alone": gate.entry.alone,
        "blocked": gate.blocked,
        "checked_since": gate.check and gate.check.since,
        "verdicts": [
            {
                **asdict(verdict),
                "output": gate.outputs.get(verdict.number),
                "flaky": verdict.number in gate.flaky,
                "reproduce": lines.get(verdict.number),
            }
            for verdict in gate.verdicts
        ],
        "conflicts": gate.conflicts,
    }
