"""The recorded output of the real programs, and small ways to read it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from weft.agents.adapters import ADAPTERS
from weft.agents.adapters.base import Reading
from weft.agents.agent import Agent
from weft.agents.classify import Seen
from weft.agents.events import Event
from weft.agents.file import parse

STREAMS = Path(__file__).parent.parent / "streams"
RECORDED = sorted(STREAMS.glob("*/*.jsonl"))
LINES = [(file.parent.name, line) for file in RECORDED for line in file.read_bytes().splitlines()]


def agent(runs: str = "claude", body: str = "{{ task.text }}\n", settings: str = "") -> Agent:
    return parse(f"---\nruns: {runs}\n{settings}---\n{body}", name="some", file="some.md")


def events_of(name: str, lines: Iterable[bytes]) -> list[Event]:
    reading, found = Reading(), list[Event]()
    for line in lines:
        events, reading = ADAPTERS[name].read(line, reading)
        found += events
    return found


def recorded(name: str, mode: str) -> list[Event]:
    return events_of(name, (STREAMS / name / f"{mode}.jsonl").read_bytes().splitlines())


def seen(events: Iterable[Event]) -> Seen:
    found = Seen()
    for event in events:
        found = found.after(event)
    return found
