"""The file of `weft run --state`: the running phases of the plan, for other tools."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft import plan
from weft.errors import InputError
from weft.plan.plan_records import Plan, ReaderOptions
from weft.runs import plan_file
from weft.runs.plan_state import encode_state, write_state
from weft.runs.progress import RunProgress, find_plan
from weft.runs.wanted_projections import read_format
from weft.worker.projections import News


class StateFile:
    """The state of a run, derived from its rows and written where the file differs."""

    def __init__(self, path: Path, memory: Sequence[str] = ()) -> None:
        self._path = path
        self._memory = tuple(memory)  # the format of the plan, if it was forced
        self._plan: Plan | None = None  # as it was when first read

    def wants(self, progress: RunProgress, changed: bool) -> bool:
        return changed

    def apply(self, news: News) -> Sequence[str]:
        if self._plan is None:
            path = find_plan(news.progress.run)
            if path is None:
                raise InputError(f"{news.progress.run.plan} is not here, so no state is written.")
            options = ReaderOptions(format=read_format(self._memory))
            self._plan = plan.read(path.name, plan_file.read(path), options).plan
        data = encode_state(self._plan, progress=news.progress)
        news.confirm()
        write_state(self._path, data)
        return self._memory
