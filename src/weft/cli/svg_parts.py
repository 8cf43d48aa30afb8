"""What all drawings of weft's pages are made of: SVG, coloured by the style sheet of the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Final

from weft.cli.plan.graph_layout import NodePosition
from weft.cli.plan.plan_text import cells, duration, fit, plain
from weft.cli.plan.text_gantt import ticks

LETTER: Final = 6.6  # the width of one, about
MARGIN: Final = 12
WIDEST: Final = 16_000  # of a drawing


def line(route: Sequence[NodePosition], kind: str, title: str = "") -> str:
    """A curve through the places of a route, straight where it crosses a column."""
    said = f"<title>{escaped(title)}</title>" if title else ""
    first, last = route[0], route[-1]
    if first.x == last.x:
        # Both in one column, one above the other: round the outside of it.
        x, out = first.x + first.width, first.x + first.width + 26
        curve = f"M{x:.0f} {first.y:.0f}C{out:.0f} {first.y:.0f} {out:.0f} {last.y:.0f} "
        return f'<path class="{kind}" d="{curve}{x:.0f} {last.y:.0f}">{said}</path>'
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
    return f'<path class="{kind}" d="{curve}">{said}</path>'


def frame(width: float, height: float, parts: list[str], label: str) -> str:
    wide, high = width + 2 * MARGIN, height + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" '
        f'width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="{-MARGIN} {-MARGIN} {wide:.0f} {high:.0f}">\n' + "\n".join(parts) + "\n</svg>"
    )


def axis(total: float, room: float, bottom: float, left: float) -> Iterator[str]:
    """Round times along the top, each with a line down to the bottom."""
    for at in ticks(total, int(room / 110)):
        x = left + at / total * room
        yield f'<path class="grid" d="M{x:.0f} 16V{bottom:.0f}"/>'
        yield f'<text class="dim" x="{x + 3:.0f}" y="12">{duration(at)}</text>'


def cut(words: str, room: int) -> str:
    """As much of a text as there is room for; nothing rather than a letter or two of it."""
    words = plain(words)
    if cells(words) <= room:
        return escaped(words)
    return escaped(fit(words, room).rstrip()) if room > 2 else ""


def escaped(words: str) -> str:
    return escape(plain(words))
