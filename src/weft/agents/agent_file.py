"""An agent file, `.weft/agents/<name>.md`: settings in front, a prompt template behind.

`parse_agent` takes the text and returns an `Agent`, or raises an error that names file and line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from weft.agents import file_values, frontmatter, template
from weft.agents.adapters import find_provider
from weft.agents.agent import (
    ARG_TYPES,
    COMMAND,
    LIMITS_TOOLS,
    PROGRAMS,
    RECORDED,
    SCRIPTED,
    Agent,
    AgentBudget,
    Prices,
)
from weft.agents.file_values import Unexpected
from weft.agents.frontmatter import Field, fail
from weft.config import BoxKind
from weft.errors import InputError
from weft.host_labels import parse_labels
from weft.model import HUMAN, LEAD
from weft.teams.team_text import parse_team

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
_ARG: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_MOST_ARGS: Final = 20


@lru_cache(maxsize=64)
def parse_agent(text: str, *, name: str, file: str) -> Agent:
    """Return the agent that a file describes; `name` is the file's name without `.md`."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{file}: an agent's name is made of letters, digits, `-`, `_` and `.`.")
    if name == HUMAN:
        raise InputError(f"{file}: {HUMAN!r} means a person and cannot be an agent.")
    document = frontmatter.read(text, file)
    settings: dict[str, Any] = {}
    for key, value in document.fields.items():
        if key not in SETTINGS:
            raise fail(file, value.line, f"unknown setting {key!r}.{_near(key, SETTINGS)}")
        settings |= _understood(SETTINGS[key], key, value, file)
    if "runs" not in settings:
        raise fail(file, 1, "`runs` is missing: say which program this agent is.")
    if settings.get("tools") and settings["runs"] not in LIMITS_TOOLS:
        line = document.fields["tools"].line
        able = " and ".join(LIMITS_TOOLS)
        raise fail(file, line, f"`tools` can only be limited for {able}; remove it.")
    if "commands" in settings and settings["runs"] != SCRIPTED:
        line = document.fields["commands"].line
        raise fail(file, line, "`commands` is for `runs: scripted` alone; remove it.")
    if "sends_to" in settings and settings.get("stage") != LEAD:
        line = document.fields["sends_to"].line
        raise fail(file, line, "`sends_to` is for a lead alone; add `stage: lead` or remove it.")
    if ("recordings" in settings) != (settings["runs"] == RECORDED):
        line = document.fields["from" if "recordings" in settings else "runs"].line
        raise fail(file, line, "`runs: recorded` and `from: DIRECTORY` belong together.")
    if settings["runs"] not in (SCRIPTED, RECORDED):
        settings.setdefault("sandbox", BoxKind.ON)
    template.check(document.body, file, document.body_line)
    agent = Agent(
        name=name, file=file, template=document.body, template_line=document.body_line, **settings
    )
    return replace(agent, provider=find_provider(agent))


Parser = Callable[[Field], dict[str, Any]]


def _understood(parse: Parser, key: str, value: Field, file: str) -> dict[str, Any]:
    if value.value == "":
        raise fail(file, value.line, f"{key!r} has no value.")
    try:
        return parse(value)
    except Unexpected as error:
        wrong = error.field
        present = f", not {_short(wrong.value)}" if isinstance(wrong.value, str) else ""
        raise fail(file, wrong.line, f"{key!r} must be {error}{present}.") from None


def _short(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:57] + "...")


def _near(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word[:60], list(known), n=1)
    return f" Did you mean {close[0]}?" if close else f" Known: {', '.join(sorted(known))}."


def _runs(value: Field) -> dict[str, Any]:
    if value.value in PROGRAMS:
        return {"runs": value.value}
    command = file_values.parse_words(value)
    if not command or not command[0]:
        raise Unexpected(value, "a program: " + ", ".join(PROGRAMS) + " or a command line")
    if isinstance(value.value, str) and len(command) == 1:
        close = difflib.get_close_matches(command[0], [*PROGRAMS, COMMAND], n=1, cutoff=0.7)
        if close:
            raise Unexpected(value, f"{close[0]}, or a list if the program is really called that")
    return {"runs": COMMAND, "command": command}


def _prices(value: Field) -> dict[str, Any]:
    given = file_values.get_mapping(value)
    _only(given, ("input", "output", "cache_read", "cache_write"))
    if "input" not in given or "output" not in given:
        raise Unexpected(value, "dollars for a million tokens, with at least input and output")
    prices = {key: file_values.parse_dollars(price) for key, price in given.items()}
    # Without a price of its own, cached input counts as plain input: never too little.
    whole = {"cache_read": prices["input"], "cache_write": prices["input"], **prices}
    return {"prices": Prices(**whole)}


def _budget(value: Field) -> dict[str, Any]:
    if isinstance(value.value, str):
        return {"budget": AgentBudget(micro_usd=file_values.parse_dollars(value))}
    given = file_values.get_mapping(value)
    _only(given, ("usd", "tokens"))
    return {
        "budget": AgentBudget(
            micro_usd=file_values.parse_dollars(given["usd"]) if "usd" in given else None,
            tokens=file_values.parse_tokens(given["tokens"]) if "tokens" in given else None,
        )
    }


def _sandbox(value: Field) -> dict[str, Any]:
    if isinstance(value.value, str):
        return {"sandbox": _sandbox_kind(value)}
    given = file_values.get_mapping(value)
    _only(given, ("kind", "image", "network", "memory", "pids", "write", "read"))
    settings: dict[str, Any] = {"sandbox": BoxKind.ON}
    if "kind" in given:
        settings["sandbox"] = _sandbox_kind(given["kind"])
    if "image" in given:
        settings["image"] = file_values.parse_text(given["image"])
        settings["sandbox"] = settings["sandbox"] if "kind" in given else BoxKind.CONTAINER
    for key in ("memory", "pids"):
        if key in given:
            settings[key] = file_values.parse_amount(given[key])
    if "network" in given:
        settings["network"] = file_values.parse_truth(given["network"])
    for key in ("write", "read"):
        if key in given:
            settings[key] = file_values.parse_paths(given[key])
    return settings


def _sandbox_kind(value: Field) -> BoxKind:
    kind = value.value.lower() if isinstance(value.value, str) else None
    if kind not in tuple(BoxKind):
        raise Unexpected(value, ", ".join(BoxKind))
    return BoxKind(kind)


def _labels(value: Field) -> dict[str, Any]:
    parts = value.value if isinstance(value.value, tuple) else (value,)
    try:
        return {"needs_labels": parse_labels(",".join(map(file_values.parse_text, parts)))}
    except ValueError as wrong:
        raise Unexpected(value, str(wrong)) from None


def _team(value: Field) -> dict[str, Any]:
    text = file_values.parse_text(value)
    try:
        return {"team": parse_team(text)}
    except ValueError as wrong:
        raise Unexpected(value, str(wrong)) from None


def _env(value: Field) -> dict[str, Any]:
    """Read names to pass through, `NAME: value` to set, or a list that mixes both."""
    parts = value.value if isinstance(value.value, tuple) else (value,)
    passed: dict[str, None] = {}
    given: dict[str, str] = {}
    for part in parts:
        if isinstance(part.value, Mapping):
            for key, item in part.value.items():
                given[file_values.parse_variable(Field(key, item.line))] = _env_value(item)
        else:
            passed[file_values.parse_variable(part)] = None
    return {"env_passed": tuple(passed), "env_set": MappingProxyType(given)}


def _args(value: Field) -> dict[str, Any]:
    """Read arguments for the program, `NAME: type` for a hand-over, or a list that mixes both."""
    if isinstance(value.value, str):
        return {"args": file_values.parse_words(value)}
    parts = value.value if isinstance(value.value, tuple) else (value,)
    given = tuple(part for part in parts if not isinstance(part.value, Mapping))
    takes: dict[str, str] = {}
    for part in parts:
        if isinstance(part.value, Mapping):
            takes |= {name: _arg_type(name, kind) for name, kind in part.value.items()}
    if len(takes) > _MOST_ARGS:
        raise Unexpected(value, f"at most {_MOST_ARGS} arguments of a hand-over")
    args = file_values.parse_words(Field(given, value.line)) if given else ()
    return {"args": args, "takes": MappingProxyType(takes)}


def _arg_type(name: str, kind: Field) -> str:
    if not _ARG.fullmatch(name) or kind.value not in ARG_TYPES:
        types = ", ".join(ARG_TYPES)
        raise Unexpected(kind, f"arguments of the program, or `NAME: type` with one of {types}")
    return str(kind.value)


def _hops(value: Field) -> dict[str, Any]:
    hops = file_values.parse_count(value)
    if not 1 <= hops <= 1_000:
        raise Unexpected(value, "a number of hand-overs from 1 to 1000")
    return {"hops": hops}


def _env_value(value: Field) -> str:
    if not isinstance(value.value, str) or "\0" in value.value:
        raise Unexpected(value, "names, or `NAME: value` with text as value")
    return value.value


def _only(given: Mapping[str, Field], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            where = Field(key, given[key].line)
            raise Unexpected(where, f"made of {', '.join(known)}")


def _one(key: str, parse: Callable[[Field], Any]) -> Parser:
    return lambda value: {key: parse(value)}


SETTINGS: Final[Mapping[str, Parser]] = {
    # a sentence for people and leads who choose an agent
    "description": _one("description", file_values.parse_text),
    # the program: claude, codex, opencode, gemini, scripted, or a command line
    "runs": _runs,
    # the model, as the program names it
    "model": _one("model", file_values.parse_text),
    # further arguments for the program, or NAME: type for the arguments of a hand-over
    "args": _args,
    # attempts at a time, in all processes; 0 pauses the agent
    "max_concurrency": _one("max_concurrency", file_values.parse_count),
    # the stage it is made for: plan, test, implement, review, judge or lead
    "stage": _one("stage", file_values.parse_name),
    # words about its strengths, for people who choose an agent
    "capabilities": _one("capabilities", file_values.parse_names),
    # labels that a worker must have to run it: gpu, arm64
    "needs_labels": _labels,
    # the provider whose limit and rate limits count; known for the programs that weft knows
    "provider": _one("provider", file_values.parse_name),
    # dollars for a million tokens, where the program reports no cost
    "prices": _prices,
    # the longest time of an attempt
    "timeout": _one("timeout", file_values.parse_seconds),
    # the longest time without a line of output
    "idle_timeout": _one("idle_timeout", file_values.parse_seconds),
    # the most an attempt may use, in dollars or {usd, tokens}
    "budget": _budget,
    # on, bwrap, container, landlock or off; on by default, off for scripted
    "sandbox": _sandbox,
    # variables to pass on from your environment, or NAME: value to set
    "env": _env,
    # the only tools it may use (claude and gemini); without it all
    "tools": _one("tools", file_values.parse_names),
    # lets the script of a scripted agent run programs
    "commands": _one("commands", file_values.parse_truth),
    # lets tokens that name no agents send it work
    "open": _one("open", file_values.parse_truth),
    # the team that works on each of its tasks: hedge, best-of 3, 3 of claude, or names of agents
    "team": _team,
    # the agents to which a lead may send work
    "sends_to": _one("sends_to", file_values.parse_names),
    # the directory of the recordings that `runs: recorded` plays, from the root or absolute
    "from": _one("recordings", file_values.parse_text),
    # the agents to which it may hand its task over
    "hands_to": _one("hands_to", file_values.parse_names),
    # hand-overs of a task that starts with this agent; 8 without it
    "hops": _hops,
}
