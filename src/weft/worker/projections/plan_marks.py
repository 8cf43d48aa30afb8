"""The marks of a plan.md: the state, commit and blocking reason of each task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft import plan
from weft.formats import first_line
from weft.model import State
from weft.plan.plan_records import Plan, ReaderOptions
from weft.plan.task_line import COMMIT_LENGTH
from weft.plan.writeback import MarkedPlan, Status, write_back
from weft.runs import plan_file
from weft.runs.progress import RunProgress
from weft.runs.wanted_projections import is_held, read_format, release_marked
from weft.store import Store
from weft.worker.projections import News


class PlanMarks:
    """The marks of a plan file, compared with the run and written where they differ."""

    def __init__(self, path: Path, store: Store, memory: Sequence[str] = ()) -> None:
        self._path = path
        self._store = store
        self._memory = tuple(memory)  # the format of the plan, if it was forced
        self._plan: Plan | None = None  # as it was when first read: tasks may be edited later
        self._written: tuple[dict[str, Status], FileIdentity] | None = None

    def wants(self, progress: RunProgress, changed: bool) -> bool:
        """Ask for an update after a change of the run, or of the file while it holds tasks back."""
        return changed or (
            self._written is not None
            and any(is_held(task) for task in progress.tasks)
            and self._written[1] != _identity(self._path)
        )

    def apply(self, news: News) -> Sequence[str]:
        format = read_format(self._memory)
        if self._plan is None:
            data = plan_file.read(self._path)
            self._plan = plan.read(self._path.name, data, ReaderOptions(format=format)).plan
        the_plan, tip = self._plan, news.progress.tip
        known = {task.id for task in the_plan.tasks}
        statuses = {
            name: status for name, status in _statuses(news.progress).items() if name in known
        }
        if self._written == (statuses, _identity(self._path)):
            return self._memory
        for name in release_marked(
            self._store,
            self._path,
            news.progress.tasks,
            before=the_plan,
            format=format,
            confirm=news.confirm,
        ):
            del statuses[name]  # the next update writes its new state

        def change(data: bytes) -> MarkedPlan:
            trunk = tip[:COMMIT_LENGTH] if tip else None
            marked = write_back(data, the_plan, statuses, trunk=trunk)
            news.confirm()
            return marked

        plan_file.update(self._path, change)
        self._written = (statuses, _identity(self._path))
        return self._memory


FileIdentity = tuple[int, int, int]


def _identity(path: Path) -> FileIdentity:
    seen = path.stat()
    return seen.st_ino, seen.st_mtime_ns, seen.st_size


def _statuses(progress: RunProgress) -> dict[str, Status]:
    landed = progress.landed
    return {
        task.name: Status(
            state=task.state,
            commit=landed[task.id][:COMMIT_LENGTH] if task.id in landed else None,
            note=first_line(task.reason) if task.state in (State.BLOCKED, State.FAILED) else "",
        )
        for task in progress.tasks
    }
