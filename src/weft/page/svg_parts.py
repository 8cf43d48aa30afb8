"""Parts that all SVG charts share; the style sheet of the page colours them by class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from weft.formats import cells, duration, fit, plain
from weft.page.markup import escaped

LETTER: Final = 6.6  # average width of a letter
MARGIN: Final = 12
_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 168)),
)


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
