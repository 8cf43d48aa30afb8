"""From all that is remembered of a run to what happened when. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from weft.model import HUMAN, TERMINAL, Attempt, Entry, Event, RunHistory, Task, TaskKind
from weft.runs.report import figures, limit_use
from weft.runs.report.report_records import (
    AttemptReport,
    CheckReport,
    LandingReport,
    RejectionReport,
    RunReport,
    TaskReport,
)

_AT_THE_GATE: Final = {"rejected": "sent back", "landed": "landed", "withdrawn": "withdrawn"}


def work_out(past: RunHistory, *, now: float) -> RunReport:
    """The report that follows from a history."""
    return _Past(past, now).report()


class _Past:
    """A history, with what is asked of it often."""

    def __init__(self, past: RunHistory, now: float) -> None:
        self._past = past
        self._zero = past.run.submitted
        ended = [one.at for one in past.events if one.kind == "run_ended"]
        self._now = ended[-1] if ended and past.run.state == "ended" else now
        self._names = {task.id: task.name for task in past.tasks}
        self._entries = {entry.id: entry for entry in past.gate.entries}

    def report(self) -> RunReport:
        past = self._past
        attempts, checks = self._attempts(), self._checks()
        rejections, landings = self._rejections(), self._landings()
        tasks = self._tasks(attempts)
        uses = limit_use.over_time(past, until=self._now)
        slots = limit_use.most_at_once(past, uses)
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
            figures=figures.work_out(past, tasks, attempts, checks, len(rejections), slots),
            tasks=tasks,
            attempts=attempts,
            checks=checks,
            rejections=rejections,
            landings=landings,
            capacity=uses,
        )

    def _since(self, at: float) -> float:
        return max(0.0, at - self._zero)

    def _events(self, kind: str) -> Iterable[Event]:
        return (one for one in self._past.events if one.kind == kind)

    def _attempts(self) -> tuple[AttemptReport, ...]:
        reasons = {
            (one.task, one.data["attempt"]): str(one.data["reason"])
            for kind in ("attempt_finished", "attempt_released")
            for one in self._events(kind)
        }
        entries = {commit: one for one in self._past.gate.entries for commit, _ in one.work}
        refusals = {
            one.data["entry"]: str(one.data["reason"]) for one in self._events("entry_rejected")
        }
        rows = sorted(self._past.attempts, key=lambda one: (one.started, one.fence))
        workers = sorted({one.worker for one in rows}, key=lambda name: _first(rows, name))
        lanes = [
            _slots([(one.started, self._end(one)) for one in rows if one.worker == worker])
            for worker in workers
        ]
        slots: dict[int, int] = {}
        for number, worker in enumerate(workers):
            before = sum(max(one) + 1 for one in lanes[:number])
            own = (one for one in rows if one.worker == worker)
            slots |= {
                one.fence: before + lane for one, lane in zip(own, lanes[number], strict=True)
            }
        return tuple(
            AttemptReport(
                task=self._names[one.task],
                number=one.number,
                agent=one.agent,
                stage=one.stage,
                worker=one.worker,
                slot=slots[one.fence],
                start=self._since(one.started),
                end=self._since(self._end(one)),
                outcome=_outcome(one),
                fate=_fate(one, entries.get(one.candidate or "")),
                reason=reasons.get((one.task, one.number)) or _refusal(one, entries, refusals),
                tokens=one.tokens,
                micro_usd=one.micro_usd,
                commit=one.candidate,
            )
            for one in rows
        )

    def _end(self, attempt: Attempt) -> float:
        return self._now if attempt.ended is None else attempt.ended

    def _checks(self) -> tuple[CheckReport, ...]:
        # A verdict and its event are written in one transaction, so they come in one order.
        every = zip(self._past.gate.verdicts, self._events("checked"), strict=True)
        told = [(verdict, event) for verdict, event in every if verdict.checked]
        slots = iter(_slots([(event.at - one.seconds, event.at) for one, event in told]))
        return tuple(
            CheckReport(
                tasks=self._in(verdict.combination),
                purpose=verdict.purpose,
                slot=next(slots),
                start=self._since(event.at - verdict.seconds),
                end=self._since(event.at),
                passed=verdict.passed,
                reused=verdict.seconds == 0,
                flaky=bool(event.data["flaked"]),
                output=self._past.outputs.get(verdict.number, ""),
            )
            for verdict, event in told
        )

    def _in(self, entries: Iterable[str]) -> tuple[str, ...]:
        """The tasks whose work is in entries."""
        return tuple(self._names[task] for one in entries for task in self._entries[one].tasks)

    def _rejections(self) -> tuple[RejectionReport, ...]:
        return tuple(
            RejectionReport(
                at=self._since(event.at),
                tasks=self._in([event.data["entry"]]),
                others=self._in(event.data["others"]),
                kind=event.data["why"],
                reason=event.data["reason"],
            )
            for event in self._events("entry_rejected")
        )

    def _landings(self) -> tuple[LandingReport, ...]:
        commits = {one.new: one.commits for one in self._past.gate.landings}
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
        for one in attempts:
            own[one.task].append(one)
        return tuple(
            TaskReport(
                name=task.name,
                title=task.request.title,
                state=task.state,
                reason=task.reason,
                needs=tuple(self._names[one] for one in self._past.needs.get(task.id, ())),
                barrier=task.request.kind is not TaskKind.WORK,
                person=task.agent == HUMAN,
                start=min((one.start for one in own[task.name]), default=None),
                end=self._since(task.since) if task.state in TERMINAL else None,
                seconds=sum(one.end - one.start for one in own[task.name]),
                micro_usd=sum(one.micro_usd for one in own[task.name]),
                commit=landed.get(task.id),
                critical=task.id in critical,
            )
            for task in self._past.tasks
        )

    def _deciding_chain(self) -> set[int]:
        """From the task that ended last back through what each had to wait for longest."""
        tasks = {task.id: task for task in self._past.tasks}
        ended = [task for task in self._past.tasks if task.state in TERMINAL]
        chain: set[int] = set()
        last = max(ended, key=_ended, default=None)
        while last is not None and last.id not in chain:
            chain.add(last.id)
            needs = [tasks[one] for one in self._past.needs.get(last.id, ())]
            last = max(needs, key=_ended, default=None)
        return chain


def _ended(task: Task) -> tuple[float, int]:
    return (task.since, task.id)


def _first(rows: Sequence[Attempt], worker: str) -> float:
    return next(one.started for one in rows if one.worker == worker)


def _outcome(attempt: Attempt) -> str:
    return "running" if attempt.ended is None else attempt.outcome or "released"


def _fate(attempt: Attempt, entry: Entry | None) -> str:
    outcome = _outcome(attempt)
    if outcome != "success":
        return outcome
    return "done" if entry is None else _AT_THE_GATE.get(entry.state, "at the gate")


def _refusal(attempt: Attempt, entries: Mapping[str, Entry], refusals: Mapping[str, str]) -> str:
    """Why the gate would not have what it left."""
    entry = entries.get(attempt.candidate or "")
    return "" if entry is None else refusals.get(entry.id, "")


def _slots(spans: Sequence[tuple[float, float]]) -> list[int]:
    """The lowest free lane for each span; they come in any order."""
    order = sorted(range(len(spans)), key=lambda number: spans[number])
    lanes = [0] * len(spans)
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    for number in order:
        start, end = spans[number]
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lanes[number] = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lanes[number]))
    return lanes
