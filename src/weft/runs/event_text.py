"""Events of the store and reports of agents in a line each, for people.

Callers add the names of tasks, times and colours, and leave out events that their reader knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from weft.candidate_records import UNCHECKED
from weft.formats import count, duration, first_line, whole_line
from weft.model import ASKED, HANDED_OVER, STEPS, Event
from weft.words import state_word

Naming = Callable[[int], str]
"""Returns the name of the task with a number."""

Data = Mapping[str, Any]

_MOST: Final = 8  # values of a list that a line names

_REASONS: Final[Mapping[str, str]] = {"reaped": "its worker is gone"}
"""Words for the reasons that the store records as a name."""

TEXTS: Final[Mapping[str, str]] = {
    "agent_resumed": "agent {agent} may run again",
    "agent_stopped": "! agent {agent} is stopped: {reason}",
    "attempt_adopted": "▶ {who}goes on: {worker} took it over from a dead worker",
    "attempt_released": "↩ {tried} handed back: {reason}",
    "branch_landed": "■ landed on {branch} as {new:.12}",
    "branch_landing_withdrawn": "! not landed: {whole_reason}",
    "capacity_reserved": "  {who}waited long: capacity is kept free for it",
    "claims_extended": "  {who}claims more: {files}",
    "drain_undone": "tasks start again",
    "drained": "! drained: no task starts any more",
    "entrant_added": "  {of}entrant {entrant} ({agent}) may start",
    "entrant_failed": "✗ {of}entrant {entrant} is out: {reason}",
    "entrant_passed": "✓ {of}entrant {entrant} passed its checks, {lines} changed lines",
    "entrants_failed": "  {who}tries once more, with the failures of the entrants before it",
    "entry_queued": "  {who}waits for the gate",
    "entry_withdrawn": "↩ {who}taken back from the gate",
    "base_doubted": "  the base is checked again: {reason}",
    "gate_blocked": "! the gate needs you: {whole_reason}",
    "gate_unblocked": "the gate goes on",
    "lease_reaped": "✗ {of}its process is gone: {proof}",
    "limit_set": "limit {resource} is {capacity}",
    "message_sent": "  {of}a message from {sender}",
    "mirror_failed": "  {of}its issue is not up to date: {reason}",
    "offer_rejected": "{of}{worker} declined the offer",
    "offer_withdrawn": "{of}the offer was not answered",
    "preference_ended": "{of}{worker} did not take it; any worker may now",
    "provider_penalised": "  {provider} is rate limited; fewer agents at a time",
    "review_accepted": "✓ {who}accepted by you",
    "review_opened": "! {who}waits for your review",
    "review_sent_back": "↩ {who}sent back by you: round {round}",
    "run_ended": "■ run ended",
    "run_reopened": "▶ run goes on with {who}{reason}",
    "run_started": "▶ run started",
    "run_submitted": "run submitted, {task_count}",
    "run_updated": "! run updated: {changes}",
    "task_approved": "✓ {who}approved {note}",
    "task_assigned": "{who}assigned to {worker}",
    "task_blocked": "! {who}needs you: {whole_reason}",
    "task_landed": "● {who}landed as {commit:.12}",
    "task_offered": "{who}offered to {worker}",
    "task_passed_on": "✓ {who}on to {stage}",
    "task_paused": "‖ {who}paused",
    "step_refused": "↩ {tried} proposed a step that was refused: {reason}",
    "task_held": "! {who}is held back by the plan: {reason}",
    "task_rejected": "↩ {who}rejected: {reason}",
    "task_reopened": "▶ {who}reopened (it was {was_word})",
    "task_resumed": "▶ {who}resumed",
    "task_sent_back": "↩ {who}sent back: {reason}",
    "task_submitted": "{who}submitted",
    "task_unparked": "▶ {who}is ready again: its wait is over",
    "team_decided": "★ {of}entrant {entrant} ({agent}) was chosen",
    "team_hedged": "  {of}another entrant starts: {reason}",
    "team_opened": "▶ {of}{strategy} with {entrants} entrants",
    "token_created": "token {token} made for {name}: {scopes}",
    "token_revoked": "token {token} revoked",
    "work_reported": "+ {of}proposes a task: {work}",
    "worker_told_to_leave": "worker {worker} was told to leave",
    "worker_departed": "worker {worker} left",
    "store_copied": "this store was copied; the copy goes on by itself",
    "worker_registered": "worker {worker} joined, {slot_count}",
    "host_joined": "host {worker} joined with token {token}",
}
_NOTICED: Final = {"rate_limit": "rate limit: ", "retrying": "tries again: ", "error": ""}


class About(Struct, frozen=True, kw_only=True):
    """The names in the line of an event; a field is empty if the caller prints it elsewhere."""

    task: str = ""
    title: str = ""
    naming: Naming = str  # of other tasks in the event


_UNNAMED: Final = About()
Special = Callable[[Data, About], str | None]


def line(event: Event, about: About = _UNNAMED) -> str | None:
    """Return an event as a line; None for events that are for programs, or of a newer weft.

    Of `progress` return warnings alone; `agent_reports` has the lines of agents' reports.
    """
    if event.kind in TEXTS:
        return TEXTS[event.kind].format_map(_fields(event.data, about)).rstrip()
    special = SPECIAL.get(event.kind)
    return None if special is None else special(event.data, about)


class Teller:
    """Events as lines for a single reader; a repeated warning is left out."""

    def __init__(self) -> None:
        self._warned: set[tuple[str, str]] = set()

    def line(self, event: Event, about: About = _UNNAMED) -> str | None:
        if event.kind == "progress" and "warning" in event.data:
            warning = (str(event.data.get("agent")), str(event.data["warning"]))
            if warning in self._warned:
                return None
            self._warned.add(warning)
        return line(event, about)


def _fields(data: Data, about: About) -> dict[str, Any]:
    given = {
        name: _listed(value) if isinstance(value, list | tuple) else value
        for name, value in data.items()
    }
    recorded = str(data.get("reason", ""))
    reason = _REASONS.get(recorded, recorded)
    return {
        **given,
        "who": f"{about.task} " if about.task else "",
        "of": f"{about.task}: " if about.task else "",
        "tried": _tried(data, about),
        "task_count": count(int(data.get("tasks", 0)), "task"),
        "slot_count": count(int(data.get("slots", 0)), "slot"),
        "was_word": state_word(str(data.get("was", ""))),
        "reason": first_line(reason),
        "whole_reason": whole_line(reason),  # for the person who has to help
    }


def _woken(data: Data, about: About) -> str:
    who = f"{about.task} " if about.task else ""
    if data["event"] == "trunk_moved":
        return f"▶ {who}wakes: trunk has moved"
    return f"▶ {who}wakes: task {about.naming(int(data['subject']))} has ended"


def _listed(values: Sequence[object]) -> str:
    """Join values with commas; of many, the first and how many more there are."""
    shown = ", ".join(map(str, values[:_MOST]))
    return shown if len(values) <= _MOST else f"{shown} and {len(values) - _MOST} more"


def _tried(data: Data, about: About) -> str:
    return about.task or f"attempt {data.get('attempt')}"


def _admitted(data: Data, about: About) -> str:
    if not about.title:
        return "▶ {of}attempt {attempt} at {worker}".format_map(_fields(data, about))
    again = f", attempt {data['attempt']}" if data["attempt"] > 1 else ""
    return f"▶ {about.task}{again}: {about.title}"


def _finished(data: Data, about: About) -> str | None:
    tried = _tried(data, about)
    if data["outcome"] == HANDED_OVER:
        return None  # `task_handed_over` tells it
    if data["outcome"] == "success":
        return f"✓ {tried}: the agent is done → {state_word(data['state'])}"
    if data["outcome"] in STEPS:
        asks = f"asks: {whole_line(data['reason'])}" if data["outcome"] == ASKED else data["reason"]
        return f"✓ {tried}: {asks} → {state_word(data['state'])}"
    needed = data["state"] == "blocked"
    reason = whole_line(data["reason"]) if needed else first_line(data["reason"])
    cause = "" if data["outcome"] == "other" else f"{data['outcome'].replace('_', ' ')}: "
    return f"✗ {tried}: {cause}{reason} → {state_word(data['state'])}"


def _handed_over(data: Data, about: About) -> str:
    args = ", ".join(f"{name}={_value(value)}" for name, value in data["args"].items())
    given = f" ({args})" if args else ""
    note = f": {first_line(data['note'])}" if data["note"].strip() else ""
    who = f"{about.task} " if about.task else ""
    return f"⇢ {who}from {data['giver']} to {data['agent']}{given}{note}"


def _value(value: object) -> str:
    return _listed(value) if isinstance(value, list | tuple) else str(value)


def _ended(state: str) -> Special:
    def describe(data: Data, about: About) -> str:
        text = f"{about.task} {state}".lstrip()
        return text if data["reason"] in ("", state) else f"{text}: {first_line(data['reason'])}"

    return describe


def _checked(data: Data, about: About) -> str:
    entries = [_entry(entry, about.naming) for entry in data["entries"]]
    base = "the base" if data.get("purpose") == "base" else "the run merged onto its branch"
    of = ", ".join(entries) or base
    if data["check_id"] == UNCHECKED:
        return f"  no check is configured for {of}"
    where = f" on {data['host']}" if data.get("host") else ""
    took = f"in {duration(data['seconds'])}{where}"
    if not data.get("flaked"):
        return f"  check of {of} {'passed' if data['passed'] else 'failed'} {took}"
    how = "passed when tried again" if data["passed"] else "failed although it had passed"
    return f"! check of {of} {how}, {took}: flaky"


def _target(data: Data, about: About) -> str:
    return ("! " if data["state"] == "refused" else "  ") + str(data["text"])


def _entry(entry: str, naming: Naming) -> str:
    """Return the name of an entry, whose id begins with the number of its task."""
    number = entry.partition(".")[0]
    return naming(int(number)) if number.isdecimal() else entry


def _warned(data: Data, about: About) -> str | None:
    if "warning" not in data:
        return None
    return f"! agent {data.get('agent')}: {data['warning']}"


def _step(data: Data, about: About) -> str:
    left = _listed(data["left"]) or "none"
    gone = "; ".join(f"{number} {reason}" for number, reason in data["out"].items())
    start = f"{about.task}: " if about.task else ""
    return f"  {start}{data['step']}: {left} left{f' ({gone})' if gone else ''}"


SPECIAL: Final[Mapping[str, Special]] = {
    "attempt_finished": _finished,
    "checked": _checked,
    "progress": _warned,
    "team_step": _step,
    "target_settled": _target,
    "task_admitted": _admitted,
    "task_cancelled": _ended("cancelled"),
    "task_handed_over": _handed_over,
    "task_evicted": _ended("evicted"),
    "task_skipped": _ended("skipped"),
    "task_woken": _woken,
}


def list_report_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the lines of a report; none for a report that only programs use."""
    match report.get("type"):
        case "text":
            return str(report["text"]).splitlines()
        case "tool":
            return [f"→ {report['name']} {report['detail']}".rstrip()]
        case "rate_limit" | "retrying" | "error" as kind:
            noticed = _NOTICED[kind]
            lines = report["text"].splitlines() or ([""] if noticed else [])
            return [f"! {noticed}{line}".rstrip(": ") for line in lines]
    return []


def shorten_report(report: Mapping[str, Any]) -> str:
    """Return a report in a single line."""
    match report["type"]:
        case "text":
            return _last_line(report["text"])
        case "tool":
            return f"{report['name']} {_last_line(report['detail'])}".strip()
        case "rate_limit":
            return f"rate limited: {_last_line(report['text'])}"
        case "retrying":
            return f"tries again: {_last_line(report['text'])}"
        case "error":
            return f"error: {_last_line(report['text'])}"
    return ""


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
