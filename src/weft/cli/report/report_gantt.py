"""What ran when: a lane for each slot, the checks of the gate beneath, and trunk at the bottom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.cli.report import report_text
from weft.cli.svg_parts import WIDEST, axis, cut, escaped, frame
from weft.runs.report.report_records import AttemptReport, CheckReport, RunReport

_LANE: Final = 28
_TOP: Final = 22
_GAP: Final = 12  # between agents, checks and trunk
_LEFT: Final = 84
_SHORTEST: Final = 0.1  # seconds that a run is drawn as
_NARROWEST: Final = 1200
_LETTER: Final = 5.9  # digits are narrower than most
_USUAL: Final = 40  # an attempt of usual length is drawn at least so wide


def draw(report: RunReport) -> str:
    return _Chart(report).draw()


class _Chart:
    def __init__(self, report: RunReport) -> None:
        self._report = report
        self._total = max(
            _SHORTEST,
            report.seconds,
            *(one.end for one in report.attempts),
            *(one.end for one in report.checks),
        )
        lengths = sorted(one.end - one.start for one in report.attempts)
        usual = lengths[len(lengths) // 2] or self._total
        self._room = min(WIDEST, max(_NARROWEST - _LEFT, _USUAL * self._total / usual))
        self._slots = max(one.slot for one in report.attempts) + 1
        self._checks = max((one.slot for one in report.checks), default=-1) + 1
        self._gate = _TOP + _LANE * self._slots + (_GAP if self._checks else 0)
        self._trunk = self._gate + _LANE * self._checks + _GAP + _LANE / 2

    def draw(self) -> str:
        bottom = self._trunk + _LANE / 2
        parts = [
            *axis(self._total, self._room, bottom, _LEFT),
            *self._lanes(),
            *self._landings(),
            *map(self._attempt, self._report.attempts),
            *(self._check(one) for one in self._report.checks if not one.reused),
        ]
        return frame(_LEFT + self._room + 40, bottom, parts, "What ran when, on which slot")

    def _x(self, at: float) -> float:
        return _LEFT + at / self._total * self._room

    def _lanes(self) -> Iterator[str]:
        for number in range(self._slots):
            yield _name(f"slot {number + 1}", _TOP + _LANE * number + 18)
        for number in range(self._checks):
            yield _name(f"check {number + 1}", self._gate + _LANE * number + 18)
        yield _name("trunk", self._trunk + 4)
        if self._checks:
            y = self._gate - _GAP / 2
            yield f'<path class="lane" d="M0 {y:.0f}H{_LEFT + self._room:.0f}"/>'

    def _attempt(self, one: AttemptReport) -> str:
        name = one.task if one.number == 1 else f"{one.task} #{one.number}"
        said = [
            f"{one.task}, attempt {one.number}: {report_text.said(one.fate)}",
            f"{report_text.length(one.start)} to {report_text.length(one.end)}",
            f"{one.agent or 'no agent'} ({one.stage or 'no stage'}) on {one.worker}",
            *([report_text.first_line(one.reason)] if one.reason else []),
        ]
        label = f"{report_text.sign(one.fate)} {name}"
        y = _TOP + _LANE * one.slot + 2
        return self._bar(report_text.kind(one.fate), one.start, one.end, y, label, said, one.task)

    def _check(self, one: CheckReport) -> str:
        fate = "passed" if one.passed else "failed"
        said = [
            f"check of {', '.join(one.tasks)}: {fate}",
            f"{report_text.length(one.start)} to {report_text.length(one.end)} ({one.purpose})",
        ]
        label = f"{'✓' if one.passed else '✗'} {', '.join(one.tasks)}"
        y = self._gate + _LANE * one.slot + 2
        kind = "landed" if one.passed else "bad"
        return self._bar(kind, one.start, one.end, y, label, said, "")

    def _bar(
        self, kind: str, start: float, end: float, y: float, label: str, said: list[str], task: str
    ) -> str:
        x = self._x(start)
        wide = max(2.0, self._x(end) - x - 1)
        mine = f' data-t="{escaped(task)}"' if task else ""
        title = "\n".join(map(escaped, said))
        return (
            f'<g class="bar {kind}"{mine}><title>{title}</title>'
            f'<rect x="{x:.1f}" y="{y:.0f}" width="{wide:.1f}" height="{_LANE - 5}" rx="4"/>'
            f'<text x="{x + 5:.1f}" y="{y + 16:.0f}">{_label(label, wide - 8)}</text></g>'
        )

    def _landings(self) -> Iterator[str]:
        y = self._trunk
        yield f'<path class="trunk" d="M{_LEFT} {y:.0f}H{_LEFT + self._room:.0f}"/>'
        for one in self._report.rejections:
            x = self._x(one.at)
            title = escaped(
                f"{', '.join(one.tasks)} sent back: {report_text.first_line(one.reason)}"
            )
            yield (
                f'<path class="mark back" d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z">'
                f"<title>{title}</title></path>"
            )
        for landing in self._report.landings:
            x = self._x(landing.at)
            title = escaped(
                f"{', '.join(landing.tasks)} landed at {report_text.length(landing.at)}"
            )
            yield f'<path class="fell" d="M{x:.1f} {_TOP - 4}V{y - 7:.1f}"/>'
            yield (
                f'<circle class="mark landed" cx="{x:.1f}" cy="{y:.1f}" r="5.5">'
                f"<title>{title}</title></circle>"
            )


def _label(label: str, room: float) -> str:
    """The label, what it begins with, or only its sign: whatever there is room for."""
    if len(label) * _LETTER <= room:
        return escaped(label)
    return cut(label, int(room / _LETTER)) or (escaped(label[0]) if room >= _LETTER else "")


def _name(name: str, y: float) -> str:
    return f'<text class="dim" x="0" y="{y:.0f}">{name}</text>'
