"""The part of a specification that concerns a task.

A section concerns a task if its heading or its own text names the task, a file of the task, or its
phase. Sections are taken in that order of importance until the limit is reached, and given in the
order of the document, under the headings that lead to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

LIMIT: Final = 12_000
_SHORT: Final = 4_000  # characters that every agent may read

_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_GLOB: Final = re.compile(r"[*?\[{]")
_SHORTEST_PHRASE: Final = 4


class _SpecSection(Struct, frozen=True):
    level: int  # 0: before the first heading
    heading: str  # the line
    text: str
    above: tuple[str, ...]  # the headings that lead to it


def choose_excerpt(
    spec: str, *, task: str, phase: str, phase_title: str, files: Sequence[str]
) -> str:
    """Return a short specification as it is, else the sections that concern a task, else the
    beginning."""
    if len(spec) <= _SHORT:
        return spec.strip()
    sections = select_sections(spec, task=task, phase=phase, phase_title=phase_title, files=files)
    return sections or f"{spec[:_SHORT].rstrip()}\n[…]"


def select_sections(
    spec: str,
    *,
    task: str,
    phase: str = "",
    phase_title: str = "",
    files: Sequence[str] = (),
    limit: int = LIMIT,
) -> str:
    """Return the sections that concern a task; empty if there are none."""
    patterns = [
        _any([_named("task", task)]),
        _any(_path(file) for file in files),
        _any([_named("phase", phase), _phrase(phase_title)]),
    ]
    sections = _sections(spec)
    ranked = []
    for place, section in enumerate(sections):
        whole = f"{section.heading}\n{section.text}"
        rank = next(
            (i for i, pattern in enumerate(patterns) if pattern and pattern.search(whole)), None
        )
        if rank is not None:
            ranked.append((rank, place))
    room = limit
    taken: list[int] = []
    for _, place in sorted(ranked):
        size = len(sections[place].text)
        if size <= room or not taken:
            taken.append(place)
            room -= size
    return _written([sections[place] for place in sorted(taken)], limit)


def _written(sections: Iterable[_SpecSection], limit: int) -> str:
    parts: list[str] = []
    written: set[str] = set()
    for section in sections:
        for heading in (*section.above, section.heading):
            if heading and heading not in written:
                written.add(heading)
                parts.append(heading)
        if section.text.strip():
            parts.append(section.text.strip("\n"))
    text = "\n\n".join(parts)
    return text if len(text) <= limit else text[:limit] + "\n[…]"


def _sections(spec: str) -> list[_SpecSection]:
    sections: list[_SpecSection] = []
    trail: list[tuple[int, str]] = []
    level, heading, lines = 0, "", list[str]()
    fence = ""

    def close() -> None:
        above = tuple(title for depth, title in trail if depth < level)
        sections.append(_SpecSection(level, heading, "\n".join(lines), above))

    for line in spec.removeprefix("\ufeff").splitlines():
        if mark := _FENCE.match(line):
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        title = None if fence or mark else _HEADING.fullmatch(line)
        if title is None:
            lines.append(line)
            continue
        close()
        level, heading, lines = len(title[1]), line.strip(), []
        trail = [entry for entry in trail if entry[0] < level] + [(level, heading)]
    close()
    return sections


def _any(patterns: Iterable[str]) -> re.Pattern[str] | None:
    known = [pattern for pattern in patterns if pattern]
    return re.compile("|".join(known), re.IGNORECASE) if known else None


def _named(kind: str, label: str) -> str:
    """Match a label as a word of its own; a bare number only behind its kind."""
    if not label:
        return ""
    word = rf"(?<![\w.-]){re.escape(label)}(?![\w-]|\.\w)"
    plain = re.fullmatch(r"[\d.]+|\w", label)
    return rf"\b{kind}\s+{word}" if plain else word


def _phrase(text: str) -> str:
    if len(text) < _SHORTEST_PHRASE:
        return ""
    return r"\s+".join(rf"{re.escape(word)}" for word in text.split())


def _path(file: str) -> str:
    """Match a file by its path, a pattern by the directory in front of its first wild part."""
    wild = _GLOB.search(file)
    literal = file[: wild.start()].rpartition("/")[0] if wild else file
    return rf"(?<![\w./-]){re.escape(literal)}(?![\w-])" if literal else ""
