"""Names of tasks and runs: a number, RUN/NAME, or a plan's id.

A plan's id names the task of the run under way, else of the latest run that had such a task.
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
from weft.words import state_word

_LARGEST: Final = 2**63


def get_named_task(store: Store, text: str) -> Task:
    """Return the task with this name; a task's number goes before a plan's id of digits."""
    task = _find_task(store, text)
    if task is None:
        raise InputError(f"There is no task {text!r}.{_hint(text, _task_names(store))}")
    return task


def get_named_run(store: Store, text: str) -> Run:
    runs = list_runs(store)
    for run in runs:
        if run.id == text:
            return run
    raise InputError(f"There is no run {text!r}.{_hint(text, [run.id for run in runs])}")


def get_named(store: Store, text: str) -> Task | Run:
    """Return the task or the run with this name. No run is named by a mere number."""
    runs = list_runs(store)
    if not _is_number(text):
        for run in runs:
            if run.id == text:
                return run
    task = _find_task(store, text)
    if task is None:
        known = [*(run.id for run in runs), *_task_names(store)]
        raise InputError(f"There is no task or run {text!r}.{_hint(text, known)}")
    return task


def list_completions(store: Store, beginning: str) -> list[tuple[str, str]]:
    """List the shortest names of tasks of unfinished runs, each with its run and state."""
    names = list_names(store)
    often = Counter(name.name for name in names)
    words = [(_shortest(name, often), name) for name in names]
    words += [(f"{name.run}/{name.name}", name) for name in names if "/" in beginning]
    words += [(str(name.task), name) for name in names if beginning.isdecimal()]
    chosen = {word: name for word, name in words if word.startswith(beginning)}
    return [
        (word, f"{name.run}/{name.name}: {state_word(name.state)}") for word, name in chosen.items()
    ]


def list_run_completions(store: Store, beginning: str) -> list[tuple[str, str]]:
    runs = [run for run in list_runs(store) if run.id.startswith(beginning)]
    return [(run.id, f"run: {run.state}") for run in runs]


def _shortest(name: Name, often: Counter[str]) -> str:
    alone = often[name.name] == 1 and not _is_number(name.name)
    return name.name if alone else f"{name.run}/{name.name}"


def _find_task(store: Store, text: str) -> Task | None:
    if _is_number(text):
        try:
            return get_task(store, int(text))
        except NotFound:
            pass  # a plan may call a task so
    run, slash, name = text.partition("/")
    if slash and (task := find_task(store, run, name)) is not None:
        return task
    called = list_called(store, text)
    if len(called) > 1:
        choices = " or ".join(f"{task.run}/{task.name}" for task in called)
        raise InputError(f"{text!r} is a task of several runs; say {choices}.")
    return next(iter(called or list_called_before(store, text)), None)


def explain_choice(store: Store, text: str, task: int) -> str:
    """Name the run that a plan's id was taken from if several ended runs have it; else empty."""
    before = list_called_before(store, text)
    if len(before) < 2 or before[0].id != task:
        return ""
    return f"{len(before)} runs had a task {text}; this is {before[0].run}/{text}, of the latest."


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) < _LARGEST


def _task_names(store: Store) -> list[str]:
    """List the names of tasks of unfinished runs, for hints."""
    names = list_names(store)
    often = Counter(name.name for name in names)
    return [_shortest(name, often) for name in names] + [
        f"{name.run}/{name.name}" for name in names
    ]


def _hint(text: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    words = list(dict.fromkeys(names))
    same = [word for word in words if word.endswith(f"/{text}")]
    close = same or get_close_matches(text, words, n=1, cutoff=0.5)
    lists = " `weft ps --tasks` and `weft runs` list the names."
    return f" Did you mean {close[0]}?" if close else lists
