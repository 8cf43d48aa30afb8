"""What people call tasks and runs: a number, RUN/NAME, or a plan's id.

A plan's id is that of the run under way that has it, else of the latest run that had it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from weft.errors import InputError, NotFound
from weft.model import Run, Task
from weft.store import Store
from weft.store.runs import list_runs
from weft.store.summaries import Name, list_called, list_called_before, list_names
from weft.store.tasks import find_task, get_task

_LARGEST: Final = 2**63


def get_named_task(store: Store, text: str) -> Task:
    """The task that is meant; a number goes before a plan's id that looks like one."""
    found = _find_task(store, text)
    if found is None:
        raise InputError(f"There is no task {text!r}.{_hint(text, _task_names(store))}")
    return found


def get_named_run(store: Store, text: str) -> Run:
    runs = list_runs(store)
    for run in runs:
        if run.id == text:
            return run
    raise InputError(f"There is no run {text!r}.{_hint(text, [run.id for run in runs])}")


def get_named(store: Store, text: str) -> Task | Run:
    """The task or the run that is meant. No run is called by a mere number."""
    runs = list_runs(store)
    if not _is_number(text):
        for run in runs:
            if run.id == text:
                return run
    found = _find_task(store, text)
    if found is None:
        known = [*(run.id for run in runs), *_task_names(store)]
        raise InputError(f"There is no task or run {text!r}.{_hint(text, known)}")
    return found


def list_completions(store: Store, beginning: str) -> list[tuple[str, str]]:
    """The shortest words that name tasks of unfinished runs, each with what it stands for."""
    names = list_names(store)
    often = Counter(one.name for one in names)
    words = [(_shortest(one, often), one) for one in names]
    words += [(f"{one.run}/{one.name}", one) for one in names if "/" in beginning]
    words += [(str(one.task), one) for one in names if beginning.isdecimal()]
    found = {word: one for word, one in words if word.startswith(beginning)}
    return [(word, f"{one.run}/{one.name}: {one.state}") for word, one in found.items()]


def list_run_completions(store: Store, beginning: str) -> list[tuple[str, str]]:
    runs = [run for run in list_runs(store) if run.id.startswith(beginning)]
    return [(run.id, f"run: {run.state}") for run in runs]


def _shortest(one: Name, often: Counter[str]) -> str:
    alone = often[one.name] == 1 and not _is_number(one.name)
    return one.name if alone else f"{one.run}/{one.name}"


def _find_task(store: Store, text: str) -> Task | None:
    if _is_number(text):
        try:
            return get_task(store, int(text))
        except NotFound:
            pass  # a plan may call a task so
    run, slash, name = text.partition("/")
    if slash and (found := find_task(store, run, name)) is not None:
        return found
    called = list_called(store, text)
    if len(called) > 1:
        choices = " or ".join(f"{task.run}/{task.name}" for task in called)
        raise InputError(f"{text!r} is a task of several runs; say {choices}.")
    return next(iter(called or list_called_before(store, text)), None)


def explain_choice(store: Store, text: str, task: int) -> str:
    """Which of several runs that have ended a plan's id was taken from; empty if it is plain."""
    before = list_called_before(store, text)
    if len(before) < 2 or before[0].id != task:
        return ""
    return f"{len(before)} runs had a task {text}; this is {before[0].run}/{text}, of the latest."


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) < _LARGEST


def _task_names(store: Store) -> list[str]:
    """What may have been meant: tasks of unfinished runs."""
    names = list_names(store)
    often = Counter(one.name for one in names)
    return [_shortest(one, often) for one in names] + [f"{one.run}/{one.name}" for one in names]


def _hint(text: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    words = list(dict.fromkeys(known))
    same = [word for word in words if word.endswith(f"/{text}")]
    close = same or get_close_matches(text, words, n=1, cutoff=0.5)
    return f" Did you mean {close[0]}?" if close else " `weft ps` lists what there is."
