"""The lines of a picture, for a terminal of any size.

The height is shared out by importance: progress, needs for people, agents at work, then the rest.
Text of plans and agents is shown letter by letter: it is no markup and cannot steer the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap
from typing import Final

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from weft.cli.output import printable
from weft.cli.view.picture import AgentLine, Panel, Picture, RunPicture
from weft.formats import dollars, duration, elapsed

_FEW: Final = 3  # lines that a section gets before less important sections
_WARNING: Final = re.compile(r"\[[^]]*\] (\S+ )?! ")  # its time, perhaps its run
_SOON: Final = 10  # seconds that are not worth counting
_NARROW: Final = 50  # columns below which an agent's line says less


class _ViewSection(Struct, frozen=True, kw_only=True):
    lines: list[Text]
    least: int  # lines it gets before less important sections get any
    title: str = ""


def draw(picture: Picture, width: int, height: int) -> list[Text]:
    """Return at most `height` lines, none wider than `width`."""
    if width < 1 or height < 1:
        return []
    sections = _sections(picture, width)
    lines: list[Text] = []
    for section, room in zip(sections, _share_out(sections, height), strict=True):
        lines += _fitted(section, room)
    if picture.panel is not None and len(lines) < height:
        lines += _draw_panel(picture.panel, height - len(lines))
    for line in lines:
        _fit(line, width)
    return lines[:height]


def _sections(picture: Picture, width: int) -> list[_ViewSection]:
    """List the sections, the most important first, in the order of the screen."""
    several = len(picture.runs) > 1
    head = [line for run in picture.runs for line in _head(run, width)]
    needs = [
        _styled(line, "bold yellow")
        for run in picture.runs
        for need in run.needs
        for line in _wrap(f"! {_prefix(run, several)}{need}", width)
    ]
    agents = [
        _agent(agent, _prefix(run, several), width) for run in picture.runs for agent in run.agents
    ]
    gate = [_plain(f"  {_prefix(run, several)}{text}") for run in picture.runs for text in run.gate]
    waits = [
        _plain(f"  {_prefix(run, several)}{text}") for run in picture.runs for text in run.waits
    ]
    limits = [_styled(f"  {limit}", "yellow") for limit in picture.limits]
    recent = [
        _styled(f"  {line}", "bold yellow" if _WARNING.match(line) else "dim")
        for line in reversed(picture.recent)
    ]
    notice = [_styled(picture.notice, "bold")] if picture.notice else []
    if not picture.runs:
        head = [_plain("No run is under way.")]
    top = [
        _ViewSection(lines=head, least=2 * max(1, len(picture.runs))),
        _ViewSection(lines=_answer(picture), least=1),
        _ViewSection(lines=notice, least=1),
    ]
    if picture.panel is not None:
        return top
    return [
        *top,
        _ViewSection(lines=needs, least=_FEW),
        _ViewSection(lines=agents, least=_FEW, title="agents"),
        _ViewSection(lines=gate, least=2, title="gate"),
        _ViewSection(lines=limits, least=1, title="limits"),
        _ViewSection(lines=waits, least=_FEW, title="waits"),
        _ViewSection(lines=recent, least=1, title="recent"),
    ]


def _wrap(text: str, width: int) -> list[str]:
    """Break a long line, so that none of its words is lost."""
    return wrap(printable(text), max(10, width), subsequent_indent="    ") or [""]


def _answer(picture: Picture) -> list[Text]:
    lines = [_styled(picture.answer, "bold green")] if picture.answer else []
    if picture.chosen:
        lines.append(Text.assemble(("▸ ", "bold"), printable(picture.chosen)))
    if picture.hint and (picture.chosen or picture.panel):
        lines.append(_styled(picture.hint, "dim"))
    return lines


def _draw_panel(panel: Panel, room: int) -> list[Text]:
    """Return the title and the lines of a panel that fit, from its beginning or its end."""
    shown = max(0, room - 1)
    if panel.from_end:
        end = len(panel.lines) - panel.offset
        lines = panel.lines[max(0, end - shown) : end]
    else:
        lines = panel.lines[panel.offset : panel.offset + shown]
    return [_styled(f"{panel.title} (Esc closes)", "bold cyan"), *map(_plain, lines)]


def _share_out(sections: Sequence[_ViewSection], height: int) -> list[int]:
    """Return the lines of each section: first its least, by importance, then all it has."""
    rooms = [0] * len(sections)
    left = height
    for most in (lambda part: min(part.least, len(part.lines)), lambda part: len(part.lines)):
        for place, section in enumerate(sections):
            title = 1 if section.title and section.lines and not rooms[place] else 0
            wanted = most(section) - rooms[place]
            given = min(wanted, left - title)
            if given > 0:
                rooms[place] += given
                left -= given + title
    return rooms


def _fitted(section: _ViewSection, room: int) -> list[Text]:
    if room <= 0:
        return []
    lines = section.lines[:room]
    hidden = len(section.lines) - len(lines)
    if section.title == "recent":
        lines = lines[::-1]  # the latest are kept, and stand last
    elif hidden and room > 1:
        lines[-1] = _styled(f"  … and {hidden + 1} more", "dim")
    title = [_styled(section.title, "bold cyan")] if section.title else []
    return [*title, *lines]


def _head(run: RunPicture, width: int) -> list[Text]:
    percent = f"{100 * run.share:3.0f} %"
    done = f"{run.done}/{run.all} done"
    left = "" if run.left is None else _left(run, run.left)
    cost = dollars(run.micro_usd) if run.micro_usd else ""
    state = "" if run.state == "running" else run.state
    facts = [run.run, state, elapsed(run.seconds), cost, left]
    first = _styled(" · ".join(printable(fact) for fact in facts if fact), "bold")
    tail = " ".join([percent, ", ".join(part for part in (done, run.counts) if part)])
    room = max(5, min(40, width - cell_len(tail) - 2))
    full = round(room * run.share)
    bar = Text("━" * full, style="green") + Text("─" * (room - full), style="dim")
    return [first, Text.assemble(bar, " ", tail)]


def _left(run: RunPicture, seconds: float) -> str:
    """Say how long the run may still take; a check under way takes more than a few seconds."""
    guess = " (a guess)" if run.guess else ""
    people = " without waiting for you" if run.people else ""
    return f"{about(max(seconds, _SOON) if run.checking else seconds)} left{people}{guess}"


def _agent(line: AgentLine, prefix: str, width: int) -> Text:
    again = f" #{line.attempt}" if line.attempt > 1 else ""
    cost = dollars(line.micro_usd) if line.micro_usd else ""
    who = f"{prefix}{line.task}"
    if width < _NARROW:
        parts = [("▶ ", "green"), (printable(who), "bold"), (f" {elapsed(line.seconds)} ", "")]
    else:
        parts = [
            ("  ▶ ", "green"),
            (_column(printable(who), 14), "bold"),
            (_column(printable(f"{line.stage}{again}"), 13), ""),
            (elapsed(line.seconds).rjust(7), ""),
            (cost.rjust(8) + "  ", ""),
        ]
    doing = f" · {line.doing}" if line.doing and line.title else line.doing
    return Text.assemble(*parts, printable(line.title), (printable(doing), "dim"))


def _column(text: str, width: int) -> str:
    """Pad text to a width; leave longer text as it is."""
    return f"{text} " if cell_len(text) >= width else set_cell_size(text, width)


def _prefix(run: RunPicture, several: bool) -> str:
    return f"{run.run} " if several else ""


def _plain(text: str) -> Text:
    return Text(printable(text))


def _styled(text: str, style: str) -> Text:
    return Text(printable(text), style=style)


def _fit(line: Text, width: int) -> None:
    line.expand_tabs(2)
    line.truncate(width, overflow="ellipsis" if width > 1 else "crop")


def about(seconds: float) -> str:
    """Return a rounded time."""
    if seconds < _SOON:
        return "a few seconds"
    step = 5 if seconds < 60 else 30 if seconds < 600 else 60 if seconds < 3600 else 300
    rounded = step * max(1, round(seconds / step))
    return "about " + duration(rounded)
