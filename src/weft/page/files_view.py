"""The view of files: claims, waits for them, hot files, claimed against touched."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from weft.formats import count
from weft.page.act_forms import pick_run
from weft.page.markup import Html, Part, article, link, state_tag, table, tag, tr


class HeldClaim(Struct, frozen=True, kw_only=True):
    pattern: str
    task: int
    name: str
    state: str
    word: str


class FileWait(Struct, frozen=True, kw_only=True):
    task: int
    name: str
    texts: tuple[str, ...]


class HotFile(Struct, frozen=True, kw_only=True):
    pattern: str
    tasks: int  # of the run that ask for it
    open: int  # of these, not ended


class ClaimComparison(Struct, frozen=True, kw_only=True):
    """The files of a candidate, compared with the claims of its task."""

    task: int
    name: str
    claimed: tuple[str, ...]
    touched: tuple[str, ...]
    outside: tuple[str, ...]  # touched and not claimed
    unused: tuple[str, ...]  # claimed and not touched


class FilesView(Struct, frozen=True, kw_only=True):
    run: str
    runs: Sequence[str] = ()
    held: Sequence[HeldClaim] = ()
    waits: Sequence[FileWait] = ()
    hot: Sequence[HotFile] = ()
    touched: Sequence[ClaimComparison] = ()


def render_files(view: FilesView) -> Html:
    return article(
        "Files",
        tag("h2", f"Held ({len(view.held)})"),
        _held(view),
        tag("h2", f"Waiting for files ({len(view.waits)})"),
        _waits(view),
        pick_run("files", view.runs, view.run) if view.runs else None,
        tag("h2", "Hot files of the run"),
        _hot(view),
        tag("h2", "Claimed against touched"),
        _touched(view),
    )


def _held(view: FilesView) -> Html:
    if not view.held:
        return tag("p", "No task holds files.", class_="dim")
    rows = [
        tr(
            tag("code", claim.pattern),
            link(f"task/{claim.task}", claim.name),
            state_tag(claim.word, claim.state),
            data_row=True,
        )
        for claim in view.held
    ]
    return table(("Files", "Held by", "State"), rows, caption="Held files")


def _waits(view: FilesView) -> Html:
    if not view.waits:
        return tag("p", "No ready task waits for files.", class_="dim")
    rows = [
        tr(
            link(f"task/{wait.task}", wait.name),
            [tag("p", text) for text in wait.texts],
            data_row=True,
        )
        for wait in view.waits
    ]
    return table(("Task", "Waits for"), rows, caption="Waits for files")


def _hot(view: FilesView) -> Html:
    if not view.hot:
        return tag("p", "No two tasks of the run ask for the same files.", class_="dim")
    rows = [
        tr(tag("code", hot.pattern), count(hot.tasks, "task"), f"{hot.open} open")
        for hot in view.hot
    ]
    return table(("Files", "Asked for by", "Of these"), rows, caption="Hot files")


def _touched(view: FilesView) -> Html:
    if not view.touched:
        return tag("p", "No task of the run has a candidate yet.", class_="dim")
    rows = [
        tr(
            link(f"task/{files.task}", files.name),
            _some(files.claimed),
            count(len(files.touched), "file"),
            _marked("outside", files.outside),
            _marked("not touched", files.unused),
            data_row=True,
        )
        for files in view.touched
    ]
    heads = ("Task", "Claimed", "Touched", "Outside the claims", "Claimed in vain")
    return table(heads, rows, caption="Claimed against touched")


def _marked(word: str, paths: Sequence[str]) -> Part:
    return [state_tag(word, "back"), " ", _some(paths)] if paths else ""


def _some(paths: Sequence[str]) -> list[Part]:
    shown: list[Part] = [tag("code", path, " ") for path in paths[:8]]
    return [*shown, f"and {len(paths) - 8} more" if len(paths) > 8 else None]
