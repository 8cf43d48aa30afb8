"""Parts that all SVG charts share; the style sheet of the page colours them by class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Final

from weft.charts.graph_layout import NodePosition
from weft.formats import cells, duration, fit, plain

LETTER: Final = 6.6  # average width of a letter
MARGIN: Final = 12
_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 168)),
)


def draw_route(route: Sequence[NodePosition], kind: str, title: str = "") -> str:
    """Draw a curve through the positions, straight where it crosses a column."""
    tooltip = f"<title>{escaped(title)}</title>" if title else ""
    first, last = route[0], route[-1]
    if first.x == last.x:
        # Both ends stand in the same column: the curve goes round its outside.
        x, out = first.x + first.width, first.x + first.width + 26
        curve = f"M{x:.0f} {first.y:.0f}C{out:.0f} {first.y:.0f} {out:.0f} {last.y:.0f} "
        return f'<path class="{kind}" d="{curve}{x:.0f} {last.y:.0f}">{tooltip}</path>'
    if last.x < first.x:
        route = route[::-1]
    curve = f"M{route[0].x + route[0].width:.0f} {route[0].y:.0f}"
    for start, end in pairwise(route):
        x1, x2 = start.x + start.width, end.x
        bend = (x2 - x1) / 2
        curve += f"C{x1 + bend:.0f} {start.y:.0f} {x2 - bend:.0f} {end.y:.0f} "
        curve += f"{x2:.0f} {end.y:.0f}"
        if end is not route[-1]:
            curve += f"H{end.x + end.width:.0f}"
    return f'<path class="{kind}" d="{curve}">{tooltip}</path>'


def frame(width: float, height: float, parts: Iterable[str], label: str) -> str:
    """Put parts into an SVG element; screen readers read `label` aloud."""
    wide, high = width + 2 * MARGIN, height + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escaped(label)}" '
        f'width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="{-MARGIN} {-MARGIN} {wide:.0f} {high:.0f}">\n' + "\n".join(parts) + "\n</svg>"
    )


def draw_axis(ticks: Iterable[tuple[float, float]], bottom: float) -> Iterator[str]:
    """Draw times at their places along the top, each with a line down to the bottom."""
    for at, x in ticks:
        yield f'<path class="grid" d="M{x:.0f} 16V{bottom:.0f}"/>'
        yield f'<text class="dim" x="{x + 3:.0f}" y="12">{duration(at)}</text>'


def list_ticks(total: float, most: int) -> list[float]:
    """List round times from 0 to the total with at most so many steps."""
    step: float = next((step for step in _STEPS if step * max(1, most) >= total), total)
    return [step * number for number in range(int(total / step) + 1)] if step > 0 else [0.0]


def cut(words: str, room: int) -> str:
    """Cut a text to the room; return no text rather than only a letter or two of it."""
    words = plain(words)
    if cells(words) <= room:
        return escape(words)
    return escape(fit(words, room).rstrip()) if room > 2 else ""


def tooltip(lines: Iterable[str]) -> str:
    return f"<title>{chr(10).join(map(escaped, lines))}</title>"


def escaped(words: str) -> str:
    return escape(plain(words))
