"""A chart of quantities that change in steps, such as the use of a limit over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from weft.formats import duration
from weft.page.svg_parts import frame, list_ticks, tooltip

_WIDE: Final = 560
_HIGH: Final = 84
_LEFT: Final = 34

Steps = Sequence[tuple[float, float | None]]
"""Moments with the amount from then on; None: no amount, which is not drawn."""


class StepChart(Struct, frozen=True, kw_only=True):
    label: str
    seconds: float  # of the time axis
    top: float  # amount at the upper edge
    top_text: str
    areas: tuple[tuple[str, Steps], ...]  # classes in the style sheet, with their steps
    lines: tuple[tuple[str, Steps], ...] = ()
    marks: tuple[tuple[float, str], ...] = ()  # moments below the axis, with tooltips


def draw_steps(chart: StepChart) -> str:
    scale = _Scale(chart)
    parts = [
        *scale.axes(chart.top_text),
        *(scale.area(steps, kind) for kind, steps in chart.areas if steps),
        *(scale.line(steps, kind) for kind, steps in chart.lines),
        *(
            f'<path class="mark wait" d="M{scale.x(at):.1f} {_HIGH + 2}l4 7h-8z">'
            f"{tooltip([title])}</path>"
            for at, title in chart.marks
        ),
    ]
    return frame(_LEFT + _WIDE, _HIGH + 18, parts, chart.label)


class _Scale:
    def __init__(self, chart: StepChart) -> None:
        self._total = chart.seconds or 1.0
        self._top = chart.top

    def x(self, at: float) -> float:
        return _LEFT + min(at, self._total) / self._total * _WIDE

    def _y(self, amount: float) -> float:
        return _HIGH - amount / self._top * _HIGH

    def axes(self, top_text: str) -> Iterator[str]:
        for amount, text in ((self._top, top_text), (0.0, "0")):
            y = self._y(amount)
            yield f'<path class="grid" d="M{_LEFT} {y:.0f}H{_LEFT + _WIDE}"/>'
            yield (
                f'<text class="dim" x="{_LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{text}</text>'
            )
        for at in list_ticks(self._total, 5)[1:]:
            x = self.x(at)
            yield f'<path class="grid" d="M{x:.0f} 0V{_HIGH}"/>'
            yield (
                f'<text class="dim" x="{x:.0f}" y="{_HIGH + 15}" text-anchor="middle">'
                f"{duration(at)}</text>"
            )

    def area(self, steps: Steps, kind: str) -> str:
        corners = "".join(f"V{y:.1f}H{end:.1f}" for _, end, y in self._spans(steps))
        return f'<path class="{kind}" d="M{self.x(steps[0][0]):.1f} {_HIGH}{corners}V{_HIGH}z"/>'

    def line(self, steps: Steps, kind: str) -> str:
        path = "".join(f"M{start:.1f} {y:.1f}H{end:.1f}" for start, end, y in self._spans(steps))
        return f'<path class="{kind}" d="{path}"/>'

    def _spans(self, steps: Steps) -> Iterator[tuple[float, float, float]]:
        """Yield the start, the end and the height of each step."""
        ends = [at for at, _ in steps[1:]] + [self._total]
        for (at, amount), end in zip(steps, ends, strict=True):
            if amount is not None:
                yield self.x(at), self.x(end), self._y(amount)
