"""The recorded output of the real programs, and small ways to read it.

`MODE.jsonl` is the standard output of a program whose model played that mode, `MODE.err` its
standard error, `MODE.journal` the part of gemini's telemetry that counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from weft.agents.adapters import ADAPTERS
from weft.agents.adapters.adapter import ReaderState
from weft.agents.agent import Agent
from weft.agents.agent_file import parse_agent
from weft.agents.classify import AttemptEnd
from weft.agents.events import Event
from weft.model import ErrorClass

STREAMS = Path(__file__).parent.parent / "streams"
RECORDED = sorted(STREAMS.glob("*/*.jsonl"))
LINES = [(file.parent.name, line) for file in RECORDED for line in file.read_bytes().splitlines()]


AUTH, CONTEXT, RATE_LIMIT = ErrorClass.AUTH, ErrorClass.CONTEXT, ErrorClass.RATE_LIMIT
OTHER, OVERLOAD = ErrorClass.OTHER, ErrorClass.OVERLOAD

FAILURES: dict[str, dict[str, tuple[int, ErrorClass]]] = {
    "claude": {
        "auth": (1, AUTH),
        "no_key": (1, AUTH),
        "quota": (1, AUTH),
        "rate_limit_forever": (1, RATE_LIMIT),
        "refusal": (1, OTHER),
        "length": (1, OTHER),
        "cut": (1, OVERLOAD),
        "malformed": (1, OVERLOAD),
        "context": (1, CONTEXT),
    },
    "codex": {
        "auth": (1, AUTH),
        "no_key": (1, AUTH),
        "quota": (1, AUTH),
        "rate_limit_forever": (1, RATE_LIMIT),
        "refusal": (0, OTHER),
        "content_filter": (1, OTHER),
        "length": (1, OTHER),
        "cut": (1, OVERLOAD),
        "malformed": (1, OVERLOAD),
        "context": (1, CONTEXT),
    },
    "opencode": {
        "auth": (1, AUTH),
        "quota": (-15, AUTH),
        "refusal": (1, OTHER),
        "length": (0, OTHER),
        "cut": (1, OVERLOAD),
        "malformed": (-15, OVERLOAD),
    },
    "gemini": {
        "auth": (145, AUTH),
        "bad_key": (144, AUTH),
        "no_key": (41, AUTH),
        "no_method": (41, AUTH),
        "quota": (173, RATE_LIMIT),
        "rate_limit_forever": (173, RATE_LIMIT),
        "refusal": (0, OTHER),
        "refusal_empty": (0, OTHER),
        "blocked": (0, OVERLOAD),
        "length": (0, OTHER),
        "length_empty": (0, OTHER),
        "loop": (0, OTHER),
        "cut": (1, OVERLOAD),
        "malformed": (1, OVERLOAD),
        "context": (144, CONTEXT),
    },
}
"""Exit code and class of each mode that fails. -15: weft ended the program."""


def agent(runs: str = "claude", body: str = "{{ task.text }}\n", settings: str = "") -> Agent:
    return parse_agent(f"---\nruns: {runs}\n{settings}---\n{body}", name="some", file="some.md")


def events_of(name: str, lines: Iterable[bytes]) -> list[Event]:
    reading, events = ReaderState(), list[Event]()
    for line in lines:
        more, reading = ADAPTERS[name].read(line, reading)
        events += more
    return events


def recorded(name: str, mode: str) -> list[Event]:
    return events_of(name, (STREAMS / name / f"{mode}.jsonl").read_bytes().splitlines())


def recorded_fully(name: str, mode: str) -> list[Event]:
    """The events of all that a program told: standard output, standard error, telemetry."""
    facts = ADAPTERS[name].FACTS
    output = STREAMS / name / f"{mode}.jsonl"
    events = recorded(name, mode) if output.exists() else []
    if facts.read_error:
        events += [event for line in _part(name, mode, "err") for event in facts.read_error(line)]
    if facts.journal:
        events += facts.journal.read(b"\n".join(_part(name, mode, "journal")).decode())
    return events


def last_errors(name: str, mode: str) -> str:
    return b"\n".join(_part(name, mode, "err")).decode()[-4096:]


def _part(name: str, mode: str, kind: str) -> list[bytes]:
    path = STREAMS / name / f"{mode}.{kind}"
    return path.read_bytes().splitlines() if path.exists() else []


def seen(events: Iterable[Event]) -> AttemptEnd:
    end = AttemptEnd()
    for event in events:
        end = end.after(event)
    return end
