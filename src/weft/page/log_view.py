"""A window of an attempt's output, with the numbers of its lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from weft.page.markup import Html, escaped, joined, link, tag

WINDOW: Final = 500  # lines of a window
_LONGEST: Final = 2_000  # characters of a line that are shown


class LogWindow(Struct, frozen=True, kw_only=True):
    first: int  # number of the first line, from 1
    lines: Sequence[str]
    total: int  # lines so far
    target: int | None = None  # the line that a link names
    at_end: bool = True  # the window follows the end
    problem: str = ""  # why there are no lines


class LogMatch(Struct, frozen=True, kw_only=True):
    line: int
    text: str


def render_log(window: LogWindow, address: str) -> Html:
    """Show the window; `address` is that of the view, and ends with `?` or `&`."""
    if window.problem:
        return tag("p", window.problem, class_="dim")
    last = window.first + len(window.lines) - 1
    rows = Html("".join(_lines(window, address)))
    earlier = max(1, window.first - WINDOW)
    return joined(
        link(f"{address}first={earlier}", "Earlier lines") if window.first > 1 else None,
        tag(
            "ol",
            rows,
            class_="log",
            id="log",
            start=window.first,
            tabindex=0,
            role="log",
            aria_live="off",
            aria_label="Output",
            data_log=True,
            data_first=window.first,
            data_last=last,
            data_total=window.total,
            data_from="end" if window.at_end else "start",
        ),
        tag("button", "To the end", type="button", data_log_end=True, id="log-end", hidden=True),
        link(f"{address}first={last + 1}", "Later lines")
        if not window.at_end and last < window.total
        else None,
    )


def _lines(window: LogWindow, address: str) -> list[str]:
    """Write the lines as text: there are hundreds, at each update."""
    shown = []
    for number, text in enumerate(window.lines, window.first):
        target = " data-target" if number == window.target else ""
        where = f'<a href="#/{address}line={number}" aria-label="Line {number}">{number}</a>'
        shown.append(f'<li id="L{number}"{target}>{where}<span>{_cut(text)}</span></li>')
    return shown


def _cut(text: str) -> Html:
    if len(text) <= _LONGEST:
        return escaped(text)
    return escaped(f"{text[:_LONGEST]}… ({len(text):,} characters)")


def render_matches(matches: Sequence[LogMatch], more: int, address: str) -> Html:
    """Show the lines that contain the searched words."""
    items = [
        tag(
            "li",
            link(f"{address}line={match.line}", str(match.line)),
            " ",
            tag("code", _cut(match.text)),
        )
        for match in matches
    ]
    count = "No line" if not items else f"{len(items) + more} lines"
    return joined(
        tag("p", f"{count} found." + (f" The first {len(items)} are shown." if more else "")),
        tag("ol", items, class_="matches") if items else None,
    )
