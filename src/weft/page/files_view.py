"""The view of files: claims, waits for them, hot files, claimed against touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from weft.formats import count
from weft.model import Task, Wait
from weft.page.act_forms import pick_run
from weft.page.markup import Html, Part, article, dim, link, state_tag, table, tag, tr
from weft.paths import matches
from weft.store.summaries import TaskClaim
from weft.words import full_label, state_word, task_label


class FilesView(Struct, frozen=True, kw_only=True):
    run: str
    runs: Sequence[str] = ()
    held: Sequence[TaskClaim] = ()
    ready: Sequence[tuple[Task, Sequence[Wait]]] = ()  # the first tasks in line
    hot: Sequence[tuple[str, int, int]] = ()  # pattern, tasks of the run that ask for it, unended
    touched: Sequence[tuple[Task, Sequence[str]]] = ()  # tasks with the files of their candidates


def render_files(view: FilesView) -> Html:
    return article(
        "Files",
        tag("h2", f"Held ({len(view.held)})"),
        _held(view),
        *_waits(view),
        pick_run("files", view.runs, view.run) if view.runs else None,
        tag("h2", "Hot files of the run"),
        _hot(view),
        tag("h2", "Claimed against touched"),
        _touched(view),
    )


def _held(view: FilesView) -> Html:
    if not view.held:
        return dim("No task holds files.")
    rows = [
        tr(
            tag("code", claim.pattern),
            link(f"task/{claim.task}", task_label(claim.task, claim.run, claim.name)),
            state_tag(
                state_word(claim.state, stage=claim.stage, agent=claim.agent, reason=claim.reason),
                claim.state,
            ),
            data_row=True,
        )
        for claim in view.held
    ]
    return table(("Files", "Held by", "State"), rows, caption="Held files")


def _waits(view: FilesView) -> Iterator[Html]:
    rows = [
        tr(
            link(f"task/{task.id}", full_label(task)),
            [tag("p", text) for text in texts],
            data_row=True,
        )
        for task, waits in view.ready
        if (texts := [wait.text for wait in waits if wait.kind in ("file", "order")])
    ]
    yield tag("h2", f"Waiting for files ({len(rows)})")
    if rows:
        yield table(("Task", "Waits for"), rows, caption="Waits for files")
    else:
        yield dim("No ready task waits for files.")


def _hot(view: FilesView) -> Html:
    if not view.hot:
        return dim("No two tasks of the run ask for the same files.")
    rows = [
        tr(tag("code", pattern), count(tasks, "task"), f"{unended} open")
        for pattern, tasks, unended in view.hot
    ]
    return table(("Files", "Asked for by", "Of these"), rows, caption="Hot files")


def _touched(view: FilesView) -> Html:
    if not view.touched:
        return dim("No task of the run has a candidate yet.")
    rows = [
        tr(
            link(f"task/{task.id}", task.name),
            _some(task.files),
            count(len(touched), "file"),
            _marked(
                "outside",
                [path for path in touched if not any(matches(glob, path) for glob in task.files)],
            ),
            _marked(
                "not touched",
                [glob for glob in task.files if not any(matches(glob, path) for path in touched)],
            ),
            data_row=True,
        )
        for task, touched in view.touched
    ]
    heads = ("Task", "Claimed", "Touched", "Outside the claims", "Claimed in vain")
    return table(heads, rows, caption="Claimed against touched")


def _marked(word: str, paths: Sequence[str]) -> Part:
    return [state_tag(word, "back"), " ", _some(paths)] if paths else ""


def _some(paths: Sequence[str]) -> list[Part]:
    shown: list[Part] = [tag("code", path, " ") for path in paths[:8]]
    return [*shown, f"and {len(paths) - 8} more" if len(paths) > 8 else None]
