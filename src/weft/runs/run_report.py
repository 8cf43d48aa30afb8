"""Reports of runs: a run's history read from the store once, and the records made of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import to_builtins
from msgspec.structs import replace

from weft.candidate_records import Entry
from weft.model import HUMAN, TERMINAL, Attempt, Event, Task, TaskKind
from weft.project.agent_list import describe_unboxed
from weft.runs.host_list import find_hosts
from weft.runs.report_records import (
    AttemptReport,
    CheckReport,
    ChoiceReport,
    LandingReport,
    RejectionReport,
    RunReport,
    TaskReport,
    list_task_waits,
    most_at_once,
    over_time,
)
from weft.runs.run_figures import find_waits, measure_run, pack_lanes
from weft.runs.task_list import get_run_or_newest
from weft.store import Store
from weft.store.runs import RunHistory, get_settings, read_history
from weft.words import describe_prediction

_AT_THE_GATE: Final = {"rejected": "sent back", "landed": "landed", "withdrawn": "withdrawn"}


def read(store: Store, run: str | None) -> RunReport:
    """Report on a run, or on the newest run."""
    now = time.time()
    chosen = get_run_or_newest(store, run)
    past = read_history(store, chosen.id, now=now)
    report = build_report(past, now=now, hosts=find_hosts(store, past.attempts, now=now))
    settings = get_settings(store, chosen.id)
    return replace(report, unboxed=describe_unboxed(settings.gate, settings.agents))


def as_json(report: RunReport) -> dict[str, Any]:
    fields: dict[str, Any] = to_builtins(report)
    return fields


def build_report(past: RunHistory, *, now: float, hosts: Mapping[str, str]) -> RunReport:
    """Make the report of a run; `hosts` maps workers to the worker hosts of their attempts."""
    return _Past(past, now, hosts).report()


class _Past:
    def __init__(self, past: RunHistory, now: float, hosts: Mapping[str, str]) -> None:
        self._past = past
        self._hosts = hosts
        self._zero = past.run.submitted
        ended = [event.at for event in past.events if event.kind == "run_ended"]
        self._now = ended[-1] if ended and past.run.state == "ended" else now
        self._names = {task.id: task.name for task in past.tasks}
        self._entries = {entry.id: entry for entry in past.gate.entries}

    def report(self) -> RunReport:
        past = self._past
        attempts, landings = self._attempts(), self._landings()
        uses = over_time(past, until=self._now)
        edges = [(task, need) for task, needs in past.needs.items() for need in needs]
        waits, parked = find_waits(past.events, past.tasks, edges, past.attempts, now=self._now)
        return RunReport(
            run=past.run.id,
            plan=past.run.plan,
            title=next((task.request.plan for task in past.tasks if task.request.plan), ""),
            state=past.run.state,
            blocked=past.run.blocked,
            base=past.run.base,
            tip=landings[-1].commits[-1] if landings else None,
            submitted=self._zero,
            seconds=self._since(self._now),
            figures=measure_run(
                past.tasks,
                past.attempts,
                past.gate,
                slots=most_at_once(past, uses),
                now=self._now,
                waits=waits,
                parked=parked,
                checks_run=[
                    (use.lease.granted, use.lease.released or self._now)
                    for use in past.uses
                    if use.run == past.run.id and use.lease.kind == "check"
                ],
            ),
            tasks=self._tasks(attempts),
            attempts=attempts,
            waits=tuple(
                replace(wait, start=self._since(wait.start), end=self._since(wait.end))
                for wait in list_task_waits(past, now=self._now)
            ),
            checks=self._checks(),
            rejections=self._rejections(),
            choices=self._choices(),
            landings=landings,
            capacity=uses,
        )

    def _since(self, at: float) -> float:
        return max(0.0, at - self._zero)

    def _events(self, kind: str) -> Iterable[Event]:
        return (event for event in self._past.events if event.kind == kind)

    def _attempts(self) -> tuple[AttemptReport, ...]:
        reasons = {
            (event.task, event.data["attempt"]): str(event.data["reason"])
            for kind in ("attempt_finished", "attempt_released")
            for event in self._events(kind)
        }
        entries = {commit: entry for entry in self._past.gate.entries for commit, _ in entry.work}
        refusals = {
            event.data["entry"]: str(event.data["reason"])
            for event in self._events("entry_rejected")
        }
        rows = sorted(self._past.attempts, key=lambda row: (row.started, row.fence))
        slots = self._slots(rows)
        return tuple(
            AttemptReport(
                task_id=row.task,
                task=self._names[row.task],
                number=row.number,
                agent=row.agent,
                stage=row.stage,
                worker=row.worker,
                slot=slots[row.fence],
                start=self._since(row.started),
                end=self._since(self._end(row)),
                outcome=_outcome(row),
                failed=row.failed,
                fate=_fate(row, entries.get(row.candidate or "")),
                reason=reasons.get((row.task, row.number)) or _refusal(row, entries, refusals),
                tokens=row.tokens,
                micro_usd=row.micro_usd,
                commit=row.candidate,
                host=self._hosts.get(row.worker, ""),
            )
            for row in rows
        )

    def _slots(self, rows: Sequence[Attempt]) -> dict[int, int]:
        """Return the slot of each attempt by its fence, numbered over all workers."""
        by_worker: dict[str, list[Attempt]] = {}
        for row in rows:
            by_worker.setdefault(row.worker, []).append(row)
        slots: dict[int, int] = {}
        before = 0
        for own in by_worker.values():
            lanes = pack_lanes([(row.started, self._end(row)) for row in own])
            slots |= {row.fence: before + lane for row, lane in zip(own, lanes, strict=True)}
            before += max(lanes) + 1
        return slots

    def _end(self, attempt: Attempt) -> float:
        return self._now if attempt.ended is None else attempt.ended

    def _checks(self) -> tuple[CheckReport, ...]:
        # A verdict and its event are written in one transaction, so their orders agree.
        pairs = zip(self._past.gate.verdicts, self._events("checked"), strict=True)
        checked = [(verdict, event) for verdict, event in pairs if verdict.checked]
        slots = pack_lanes([(event.at - verdict.seconds, event.at) for verdict, event in checked])
        return tuple(
            CheckReport(
                tasks=self._in(verdict.combination),
                purpose=verdict.purpose,
                slot=slot,
                start=self._since(event.at - verdict.seconds),
                end=self._since(event.at),
                passed=verdict.passed,
                reused=verdict.seconds == 0,
                flaky=bool(event.data["flaked"]),
                output=self._past.outputs.get(verdict.number, ""),
                host=verdict.host,
            )
            for (verdict, event), slot in zip(checked, slots, strict=True)
        )

    def _in(self, entries: Iterable[str]) -> tuple[str, ...]:
        """Return the names of the tasks whose work is in these entries."""
        return tuple(self._names[task] for entry in entries for task in self._entries[entry].tasks)

    def _rejections(self) -> tuple[RejectionReport, ...]:
        return tuple(
            RejectionReport(
                at=self._since(event.at),
                tasks=self._in([event.data["entry"]]),
                with_tasks=self._in(event.data["others"]),
                kind=event.data["why"],
                reason=event.data["reason"],
            )
            for event in self._events("entry_rejected")
        )

    def _choices(self) -> tuple[ChoiceReport, ...]:
        steps = [
            ChoiceReport(
                at=self._since(event.at),
                task=self._names[event.task or 0],
                step=event.data["step"],
                left=tuple(event.data["left"]),
                out=event.data["out"],
            )
            for event in self._events("team_step")
        ]
        chosen = [
            ChoiceReport(
                at=self._since(event.at),
                task=self._names[event.task or 0],
                step="chosen",
                left=(event.data["entrant"],),
                out={},
            )
            for event in self._events("team_decided")
        ]
        return tuple(sorted([*steps, *chosen], key=lambda choice: choice.at))

    def _landings(self) -> tuple[LandingReport, ...]:
        commits = {landing.new: landing.commits for landing in self._past.gate.landings}
        return tuple(
            LandingReport(
                at=self._since(event.at),
                tasks=self._in(event.data["entries"]),
                commits=commits[event.data["new"]],
            )
            for event in self._events("landed")
        )

    def _tasks(self, attempts: Sequence[AttemptReport]) -> tuple[TaskReport, ...]:
        landed = {event.task: str(event.data["commit"]) for event in self._events("task_landed")}
        critical = self._deciding_chain()
        own: dict[str, list[AttemptReport]] = {name: [] for name in self._names.values()}
        for attempt in attempts:
            own[attempt.task].append(attempt)
        return tuple(
            TaskReport(
                id=task.id,
                name=task.name,
                title=task.request.title,
                state=task.state,
                reason=task.reason,
                needs=tuple(self._names[need] for need in self._past.needs.get(task.id, ())),
                barrier=task.request.kind is not TaskKind.WORK,
                person=task.agent == HUMAN,
                start=min((attempt.start for attempt in own[task.name]), default=None),
                end=self._since(task.since) if task.state in TERMINAL else None,
                seconds=sum(attempt.end - attempt.start for attempt in own[task.name]),
                micro_usd=sum(attempt.micro_usd for attempt in own[task.name]),
                commit=landed.get(task.id),
                critical=task.id in critical,
                predicted=describe_prediction(task.request.predicted),
            )
            for task in self._past.tasks
        )

    def _deciding_chain(self) -> set[int]:
        """Return the task that ended last, the latest of its needs, and so on back to the start."""
        tasks = {task.id: task for task in self._past.tasks}
        ended = [task for task in self._past.tasks if task.state in TERMINAL]
        chain: set[int] = set()
        last = max(ended, key=_ended, default=None)
        while last is not None and last.id not in chain:
            chain.add(last.id)
            needs = [tasks[need] for need in self._past.needs.get(last.id, ())]
            last = max(needs, key=_ended, default=None)
        return chain


def _ended(task: Task) -> tuple[float, int]:
    return (task.since, task.id)


def _outcome(attempt: Attempt) -> str:
    return "running" if attempt.ended is None else attempt.outcome or "released"


def _fate(attempt: Attempt, entry: Entry | None) -> str:
    outcome = _outcome(attempt)
    if outcome != "success":
        return outcome
    return "done" if entry is None else _AT_THE_GATE.get(entry.state, "at the gate")


def _refusal(attempt: Attempt, entries: Mapping[str, Entry], refusals: Mapping[str, str]) -> str:
    """Return the reason for which the gate rejected the attempt's commit, if it did."""
    entry = entries.get(attempt.candidate or "")
    return "" if entry is None else refusals.get(entry.id, "")
