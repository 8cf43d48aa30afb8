"""Quantities over the time of a run as steps: limits and their use, and what was spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from weft.cli.plan.plan_text import duration
from weft.cli.plan.text_gantt import ticks
from weft.cli.report import report_text
from weft.cli.svg_parts import escaped, frame
from weft.runs.report.limit_use import LimitUse
from weft.runs.report.report_records import RunReport

_WIDE: Final = 560
_HIGH: Final = 84
_LEFT: Final = 34

Steps = Sequence[tuple[float, float]]
"""From when on, how much."""


def capacity(one: LimitUse, total: float) -> str:
    """Use by the run, by others on top of it, and the limit."""
    peak = max((step.own + step.others for step in one.steps), default=1)
    limit = one.limit
    top = max(peak, limit) if limit is not None and limit <= 3 * peak else peak
    scale = _Scale(total=total, top=max(1, top))
    both = [(step.at, float(step.own + step.others)) for step in one.steps]
    own = [(step.at, float(step.own)) for step in one.steps]
    parts = [*scale.axes(f"{max(1, top)}")]
    if any(step.others for step in one.steps):
        parts.append(scale.area(both, "others"))
    parts.append(scale.area(own, "own"))
    if limit is not None and limit <= top:
        known = [(at, -1.0 if value is None else float(value)) for at, value in one.limits]
        parts.append(scale.outline(known, "limit"))
    parts += (
        f'<path class="mark wait" d="M{scale.x(at):.1f} {_HIGH + 2}l4 7h-8z">'
        "<title>its provider said it was busy</title></path>"
        for at in one.penalties
    )
    return frame(_LEFT + _WIDE, _HIGH + 18, parts, escaped(f"Use of {one.resource} over time"))


def spending(report: RunReport) -> str:
    """Dollars so far, as attempts ended."""
    ended = sorted((one.end, one.micro_usd) for one in report.attempts)
    sums = accumulate(micro_usd for _, micro_usd in ended)
    steps = [(at, float(so_far)) for (at, _), so_far in zip(ended, sums, strict=True)]
    top = report.figures.micro_usd
    scale = _Scale(total=report.seconds, top=max(1, top))
    parts = [*scale.axes(report_text.dollars(top)), scale.area(steps, "spent")]
    return frame(_LEFT + _WIDE, _HIGH + 18, parts, "Dollars spent over time")


class _Scale:
    def __init__(self, *, total: float, top: float) -> None:
        self._total = total or 1.0
        self._top = top

    def x(self, at: float) -> float:
        return _LEFT + min(at, self._total) / self._total * _WIDE

    def _y(self, amount: float) -> float:
        return _HIGH - amount / self._top * _HIGH

    def axes(self, top: str) -> Iterator[str]:
        for amount, said in ((self._top, top), (0.0, "0")):
            y = self._y(amount)
            yield f'<path class="grid" d="M{_LEFT} {y:.0f}H{_LEFT + _WIDE}"/>'
            yield (
                f'<text class="dim" x="{_LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{said}</text>'
            )
        for at in ticks(self._total, 5)[1:]:
            x = self.x(at)
            yield f'<path class="grid" d="M{x:.0f} 0V{_HIGH}"/>'
            yield (
                f'<text class="dim" x="{x:.0f}" y="{_HIGH + 15}" text-anchor="middle">'
                f"{duration(at)}</text>"
            )

    def area(self, steps: Steps, kind: str) -> str:
        if not steps:
            return ""
        path = f"M{self.x(steps[0][0]):.1f} {_HIGH}{self._corners(steps)}V{_HIGH}z"
        return f'<path class="{kind}" d="{path}"/>'

    def outline(self, steps: Steps, kind: str) -> str:
        """A line; below nothing is no limit, and not drawn."""
        ends = [at for at, _ in steps[1:]] + [self._total]
        path = "".join(
            f"M{self.x(at):.1f} {self._y(amount):.1f}H{self.x(end):.1f}"
            for (at, amount), end in zip(steps, ends, strict=True)
            if amount >= 0
        )
        return f'<path class="{kind}" d="{path}"/>'

    def _corners(self, steps: Steps) -> str:
        ends = [at for at, _ in steps[1:]] + [self._total]
        return "".join(
            f"V{self._y(amount):.1f}H{self.x(end):.1f}"
            for (_, amount), end in zip(steps, ends, strict=True)
        )
