"""Tasks that a plan holds back, `[!]`: reopened once their author changes the mark."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from weft import plan
from weft.model import State, Task
from weft.plan.plan_records import Plan, ReaderOptions, Source
from weft.plan.task_match import match_tasks
from weft.runs import plan_file
from weft.store import Store
from weft.store.tasks import retry


def is_held(task: Task) -> bool:
    return task.state is State.BLOCKED and bool(task.request.held)


def release_marked(
    store: Store,
    path: Path,
    tasks: Sequence[Task],
    *,
    before: Plan | None = None,
    format: Source | None = None,
    confirm: Callable[[], None] = lambda: None,
) -> list[str]:
    """Reopen the held tasks whose mark in the file is [ ] by now; return their names.

    `before` is the plan as the run knows it, if the file may have other tasks by now. `format` is
    that of the file, if a person had it read against its content. `confirm` is called before each
    effect.
    """
    held = {task.name: task.id for task in tasks if is_held(task)}
    if not held:
        return []
    now = plan.read(path.name, plan_file.read(path), ReaderOptions(format=format)).plan
    marks = match_tasks(before or now, now, held)
    names = [name for name, task in marks.items() if task.status is State.WAITING]
    for name in names:
        confirm()
        retry(store, held[name], now=time.time())
    return names
