"""A diff as HTML: unified on a narrow screen, side by side on a wide one, in pages of lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from weft.formats import count
from weft.gate.review_view import DiffFile, DiffHunk, DiffLine
from weft.page.markup import Html, escaped, joined, link, tag

MOST: Final = 2_000  # lines of a page
_LONGEST: Final = 2_000  # characters of a line that are shown
_GENERATED = re.compile(
    r"(?:^|/)(?:[^/]*\.lock|[^/]*-lock\.(?:json|yaml)|go\.sum|npm-shrinkwrap\.json|gradle\.lockfile)$"
    r"|(?:_pb2(?:_grpc)?\.pyi?|\.pb\.go|\.min\.(?:js|css)|\.snap|\.map|\.generated\.[^/]+)$"
    r"|(?:^|/)(?:node_modules|vendor|dist|__snapshots__)/"
)

LinePlace = tuple[str, str, int]
"""Path, side (old or new) and number of a line."""


class DiffPage(Struct, frozen=True, kw_only=True):
    """A page of the files of a diff."""

    files: Sequence[DiffFile]  # with the lines of the page only
    folded: Mapping[str, int]  # generated files: their number of lines, which are not shown
    start: int  # number of the first line, from 0
    more: int | None  # start of the next page


class LineNotes(Struct, frozen=True, kw_only=True):
    """Comments and forms that stand below lines of a diff, and the links of the line numbers."""

    below: Mapping[LinePlace, Sequence[Html]] = {}  # comments and forms, by place
    address: Callable[[LinePlace], str] | None = None  # of a line's link; None: no links


def is_generated(path: str) -> bool:
    """Tell whether a path is that of a lock file or of generated code."""
    return _GENERATED.search(path) is not None


def choose_page(files: Sequence[DiffFile], start: int, unfolded: str = "") -> DiffPage:
    """Choose the lines from `start` on; lines of generated files count if they are unfolded."""
    folded = {
        file.path: count_lines(file)
        for file in files
        if is_generated(file.path) and file.path != unfolded
    }
    shown: list[DiffFile] = []
    before, room = 0, MOST
    for file in files:
        if file.path in folded:
            if before >= start and room > 0:
                shown.append(replace(file, hunks=()))
            continue
        lines = count_lines(file)
        skipped = min(max(0, start - before), lines)
        taken = min(lines - skipped, max(0, room))
        if taken or (not lines and start <= before and room > 0):
            shown.append(replace(file, hunks=tuple(_cut_hunks(file.hunks, skipped, taken))))
        before += lines
        room -= taken
    return DiffPage(
        files=shown,
        folded=folded,
        start=start,
        more=start + MOST if before > start + MOST else None,
    )


def count_lines(file: DiffFile) -> int:
    return sum(len(hunk.lines) for hunk in file.hunks)


def _cut_hunks(hunks: Iterable[DiffHunk], skipped: int, taken: int) -> Iterator[DiffHunk]:
    for hunk in hunks:
        lines = hunk.lines[skipped : skipped + taken]
        skipped = max(0, skipped - len(hunk.lines))
        taken -= len(lines)
        if lines:
            yield replace(hunk, lines=lines)


def render_diff(page: DiffPage, address: str, notes: LineNotes) -> Html:
    """Show the files of a page; `address` is that of the view, and ends with `?` or `&`."""
    if not page.files:
        return tag("p", "No file is changed.", class_="dim")
    earlier = max(0, page.start - MOST)
    return joined(
        link(f"{address}start={earlier}", "Earlier lines") if page.start else None,
        [_render_file(file, page, address, notes) for file in page.files],
        None if page.more is None else link(f"{address}start={page.more}", "More lines"),
    )


def _render_file(file: DiffFile, page: DiffPage, address: str, notes: LineNotes) -> Html:
    source = f"from {file.source}" if file.source else ""
    about = [file.kind, source, file.mode, "binary" * file.binary]
    head = tag(
        "h2",
        tag("code", file.path),
        tag("span", ", ".join(filter(None, about)), class_="dim"),
        _file_link(file, notes),
    )
    lines = page.folded.get(file.path)
    return tag(
        "section",
        head,
        notes.below.get((file.path, "new", 0)),
        _render_folded(file, lines, address) if lines is not None else None,
        Html("".join(_render_hunks(file, notes))),
        class_="diff",
        id=f"file-{file.path}",
        data_row=True,
    )


def _file_link(file: DiffFile, notes: LineNotes) -> Html | None:
    if notes.address is None:
        return None
    return link(notes.address((file.path, "new", 0)), "Comment on the file", class_="button")


def _render_folded(file: DiffFile, lines: int, address: str) -> Html:
    return tag(
        "p",
        f"Generated: {count(lines, 'line')} folded. ",
        link(f"{address}unfold={quote(file.path)}", "Show them"),
        class_="dim",
    )


def _render_hunks(file: DiffFile, notes: LineNotes) -> Iterator[str]:
    # A new or deleted file has nothing to stand beside.
    shape = "whole" if file.kind in ("added", "deleted") else "change"
    for hunk in file.hunks:
        yield f'<div class="hunk">@@ {escaped(hunk.section)}</div>'
        for olds, news in _blocks(hunk.lines):
            if olds and olds == news:
                yield from (_render_line(file, line, "same", notes) for line in olds)
                continue
            left = "".join(_render_line(file, line, "removed", notes) for line in olds)
            right = "".join(_render_line(file, line, "added", notes) for line in news)
            yield f'<div class="{shape}"><div>{left}</div><div>{right}</div></div>'


def _blocks(lines: Iterable[DiffLine]) -> Iterator[tuple[list[DiffLine], list[DiffLine]]]:
    """Yield the removed and the added lines of each change; unchanged lines are both."""
    olds: list[DiffLine] = []
    news: list[DiffLine] = []
    for line in lines:
        if line.sign == " " or (line.sign == "-" and news):
            if olds or news:
                yield olds, news
            olds, news = [], []
        if line.sign == " ":
            yield [line], [line]
        else:
            (olds if line.sign == "-" else news).append(line)
    if olds or news:
        yield olds, news


def _render_line(file: DiffFile, line: DiffLine, kind: str, notes: LineNotes) -> str:
    place = place_of(file, line)
    number = f"{line.old or '':>4} {line.new or '':>4}"
    label = f"{'Removed' if place[1] == 'old' else 'New'} line {place[2]}"
    if notes.address is None:
        numbers = f'<span class="no">{number}</span>'
    else:
        numbers = (
            f'<a class="no" href="#/{escaped(notes.address(place))}" data-key="c" '
            f'aria-label="{label}: comment">{number}</a>'
        )
    below = "".join(notes.below.get(place, ()))
    return (
        f'<div class="code {kind}" id="{place[1]}-{place[2]}-{escaped(file.path)}" data-row>'
        f"{numbers}<code>{line.sign}{_cut(line.text)}</code></div>{below}"
    )


def place_of(file: DiffFile, line: DiffLine) -> LinePlace:
    if line.new is not None:
        return (file.path, "new", line.new)
    return (file.source or file.path, "old", line.old or 0)


def _cut(text: str) -> Html:
    if len(text) <= _LONGEST:
        return escaped(text)
    return escaped(f"{text[:_LONGEST]}… ({len(text):,} characters)")
