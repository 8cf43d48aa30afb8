"""The progress of a run: its tasks, attempts, gate and needs at a point in time."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from weft.candidate_records import GateRows
from weft.errors import InputError
from weft.model import Attempt, Event, Run, State, Task, TaskKind
from weft.runs.attention import Attention, AttentionItem, read_attention
from weft.runs.attention import as_dict as need_as_dict
from weft.store import Store
from weft.store.gate import read_gate
from weft.store.runs import get_run, list_runs
from weft.store.tasks import list_run, list_run_attempts

CLAIMS_EXTENDED: Final = "claims_extended"


def list_outside(events: Iterable[Event]) -> dict[str, list[int]]:
    """List the patterns that agents claimed besides those of their tasks, each with the tasks.

    An agent changed such files, and no other task held them. Claims that a person added with `weft
    retry --files` are left out.
    """
    claimed: dict[str, list[int]] = {}
    for event in events:
        if event.kind == CLAIMS_EXTENDED and event.data.get("by") == "agent" and event.task:
            for pattern in event.data["files"]:
                claimed.setdefault(pattern, []).append(event.task)
    return claimed


class RunProgress(Struct, frozen=True, kw_only=True):
    run: Run
    tasks: tuple[Task, ...]
    attempts: tuple[Attempt, ...]
    gate: GateRows
    needs: Attention  # of this run and all others

    @property
    def work(self) -> tuple[Task, ...]:
        """The tasks that agents or people do; barriers and stories are left out."""
        return tuple(task for task in self.tasks if task.request.kind is TaskKind.WORK)

    @property
    def counts(self) -> Counter[State]:
        return Counter(task.state for task in self.work)

    @property
    def ended(self) -> bool:
        return self.run.state == "ended"

    @property
    def tip(self) -> str | None:
        """The commit of trunk after the latest landing; None before the first."""
        landed = [landing for landing in self.gate.landings if landing.state == "landed"]
        return landed[-1].new if landed else None

    @property
    def landed(self) -> dict[int, str]:
        """The commit of each landed task."""
        commits = {
            entry: commit
            for landing in self.gate.landings
            if landing.state == "landed"
            for entry, commit in zip(landing.entries, landing.commits, strict=True)
        }
        teams = {task.id for task in self.work if task.request.team is not None}
        return {
            task: commits[entry.id]
            for entry in self.gate.entries
            if entry.id in commits
            for task in (*entry.tasks, *teams.intersection([entry.story]))
        }

    @property
    def questions(self) -> tuple[AttentionItem, ...]:
        return () if self.ended else self.needs.of(self.run.id)

    @property
    def stuck(self) -> bool:
        """True if no task can go on without a person."""
        return self.run.id in self.needs.stuck


def read_progress(store: Store, run: str) -> RunProgress:
    return RunProgress(
        run=get_run(store, run),
        tasks=tuple(list_run(store, run)),
        attempts=tuple(list_run_attempts(store, run)),
        gate=read_gate(store, run),
        needs=read_attention(store, now=time.time()),
    )


def find_unfinished(store: Store, path: Path | None = None) -> list[Run]:
    """List the unfinished runs, newest first: of a plan file, or all."""
    return [
        run
        for run in list_runs(store)
        if run.state != "ended" and (path is None or _is_of(run, path))
    ]


def find_last_run(store: Store, path: Path) -> str | None:
    """Return the newest run of a plan file; None if it was never run."""
    return next((run.id for run in list_runs(store) if _is_of(run, path)), None)


def _is_of(run: Run, path: Path) -> bool:
    return run.plan in (str(path.resolve()), qualify_path(path))


def qualify_path(path: Path) -> str:
    """Name a plan file with its machine, so that other machines do not take it for theirs."""
    return f"{socket.gethostname()}:{path.resolve()}"


def find_plan(run: Run) -> Path | None:
    """Return the file of a run's plan; None if it is not on this machine."""
    host, _, path = run.plan.partition(":")
    run_path = Path(path) if path and host == socket.gethostname() else Path(run.plan)
    return run_path if run_path.is_file() else None


def get_resumable(store: Store, name: str | None, path: Path | None = None) -> Run:
    """Return the run to resume: the named run, or the only unfinished run (of the plan file, if
    given)."""
    if name is not None:
        run = get_run(store, name)
        if path is not None and not _is_of(run, path):
            raise InputError(f"Run {run.id} is of the plan {run.plan}, not of {path}.")
        return run
    unfinished = find_unfinished(store, path)
    if len(unfinished) == 1:
        return unfinished[0]
    which = "" if path is None else f" of {path}"
    if not unfinished:
        raise InputError(f"There is no unfinished run{which} to resume.")
    names = ", ".join(run.id for run in unfinished)
    raise InputError(f"Several runs{which} are unfinished: {names}. Name the run to resume.")


def summary(progress: RunProgress) -> dict[str, Any]:
    """Return the progress of a run for programs."""
    landed = progress.landed
    return {
        "run": progress.run.id,
        "state": progress.run.state,
        "branch": f"weft/{progress.run.id}",
        "base": progress.run.base,
        "into": _target(progress.run),
        "tasks": [
            {
                "task": task.id,
                "name": task.name,
                "state": task.state.value,
                "reason": task.reason,
                "commit": landed.get(task.id),
            }
            for task in progress.work
        ],
        "needs_you": [need_as_dict(need) for need in progress.questions],
        "tokens": sum(attempt.tokens for attempt in progress.attempts),
        "micro_usd": sum(attempt.micro_usd for attempt in progress.attempts),
    }


def _target(run: Run) -> dict[str, str] | None:
    if not run.target:
        return None
    return {"branch": run.target, "state": run.target_state.value, "text": run.target_text}
