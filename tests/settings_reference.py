"""Write the reference of all settings from the sources: `make reference`.

The comment of a field in `config.py`, or above a key in `agents/agent_file.py`, is the meaning of
that setting. From it come docs/configuration.md and the JSON Schemas of `weft help schema`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

from weft import host_labels
from weft.agents.agent import ARG_TYPES, PROGRAMS
from weft.config import DEFAULT_LIMITS, SECTIONS, Config
from weft.model import Priority
from weft.plan import prd

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "weft"
PAGE = ROOT / "docs" / "configuration.md"
SCHEMAS = SOURCES / "maintenance" / "schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"

TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
COMMAND: dict[str, Any] = {"anyOf": [TEXT, TEXTS]}
NAMES: dict[str, Any] = {"anyOf": [TEXT, TEXTS]}
TRUTH: dict[str, Any] = {"anyOf": [{"type": "boolean"}, {"enum": ["yes", "no", "on", "off"]}]}
DOLLARS: dict[str, Any] = {"type": ["number", "string"]}
PATHS: dict[str, Any] = {"anyOf": [TEXT, TEXTS]}

TYPES = {
    "float": {"type": "number", "exclusiveMinimum": 0},
    "int": COUNT,
    "bool": {"type": "boolean"},
    "str": TEXT,
    "str | None": TEXT,
    "tuple[str, ...]": TEXTS,
    "tuple[str, ...] | None": COMMAND,
    "BoxKind": {"enum": ["on", "bwrap", "container", "landlock", "off", True, False]},
}
NARROWER: dict[str, dict[str, Any]] = {
    "gate.squash": {"enum": ["task", "story"]},
    "commit.style": {"enum": ["plain", "conventional"]},
    "tuning.capacity_wait": {"type": "number", "minimum": 0},
    "gate.slots": {"type": "integer", "minimum": 1, "maximum": 256},
}
LABELS: dict[str, Any] = {
    "anyOf": [TEXT, {"type": "array", "items": {"type": "string", "pattern": host_labels.PATTERN}}]
}
AMOUNT: dict[str, Any] = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]}

TAKEN: dict[str, Any] = {"type": "object", "additionalProperties": {"enum": list(ARG_TYPES)}}
ARGS: dict[str, Any] = {
    "anyOf": [TEXT, TAKEN, {"type": "array", "items": {"anyOf": [TEXT, TAKEN]}}]
}

AGENT_TYPES: dict[str, dict[str, Any]] = {
    "description": TEXT,
    "runs": {"anyOf": [{"enum": list(PROGRAMS)}, COMMAND]},
    "model": TEXT,
    "args": ARGS,
    "max_concurrency": COUNT,
    "stage": TEXT,
    "capabilities": NAMES,
    "provider": TEXT,
    "prices": {
        "type": "object",
        "properties": dict.fromkeys(("input", "output", "cache_read", "cache_write"), DOLLARS),
        "required": ["input", "output"],
        "additionalProperties": False,
    },
    "timeout": TEXT,
    "idle_timeout": TEXT,
    "budget": {
        "anyOf": [
            DOLLARS,
            {
                "type": "object",
                "properties": {"usd": DOLLARS, "tokens": {"type": ["integer", "string"]}},
                "additionalProperties": False,
            },
        ]
    },
    "sandbox": {
        "anyOf": [
            TYPES["BoxKind"],
            {
                "type": "object",
                "properties": {
                    "kind": TYPES["BoxKind"],
                    "image": {"type": "string"},
                    "network": TRUTH,
                    "memory": AMOUNT,
                    "pids": AMOUNT,
                    "write": PATHS,
                    "read": PATHS,
                },
                "additionalProperties": False,
            },
        ]
    },
    "env": {
        "anyOf": [
            TEXT,
            {"type": "array", "items": {"type": ["string", "object"]}},
            {"type": "object"},
        ]
    },
    "tools": NAMES,
    "commands": TRUTH,
    "open": TRUTH,
    "team": TEXT,
    "sends_to": NAMES,
    "from": TEXT,
    "hands_to": NAMES,
    "needs_labels": LABELS,
    "hops": {"type": "integer", "minimum": 1, "maximum": 1000},
}

FLAG: dict[str, Any] = {"type": ["boolean", "null"]}
WORD: dict[str, Any] = {"type": ["string", "integer"]}
PROSE: dict[str, Any] = {"type": ["string", "null"]}
FILES: dict[str, Any] = {"anyOf": [PROSE, {"type": "array", "items": {"type": "string"}}]}
STORY_TYPES: dict[str, dict[str, Any]] = {
    "id": WORD,
    "title": PROSE,
    "description": PROSE,
    "files": FILES,
    "depends_on": {"type": ["array", "null"], "items": WORD},
    "passes": FLAG,
    "skipped": FLAG,
    "notes": {},  # of any type; only text is read
    "agent": PROSE,
    "needs_labels": {"anyOf": [*LABELS["anyOf"], {"type": "null"}]},
    "check": PROSE,
    "review": {"enum": ["you", None]},
    "team": {"type": ["string", "null"]},
    "acceptance_criteria": FILES,
    "priority": {"anyOf": [{"enum": [level.name.lower() for level in Priority]}, COUNT]},
    "subtasks": {"type": ["array", "null"], "items": {"$ref": "#/$defs/subtask"}},
    "parallel_group": WORD,
}
ATTRIBUTE_MEANINGS = {
    "agent": "name of an agent file; human: you do it",
    "needs_labels": "labels that its worker must have, such as gpu",
    "check": "a command that the candidate has to pass besides the gate's",
    "review": "you: you accept the candidate before it lands",
    "team": "several entrants work on it: hedge, best-of 3, 3 of claude, or names of agents",
}

VARIABLES = {
    "WEFT_STORE": "the store, as `url` of `[store]`; a password belongs here, not into a file",
    "WEFT_LISTEN_URL": "the PostgreSQL itself, as `listen_url` of `[store]`",
    "WEFT_SERVER": "the server on which every command works, as `weft --server`",
    "WEFT_TOKEN": "the token for that server",
    "WEFT_TOKEN_FILE": "a file with the token for that server",
    "WEFT_INSECURE": "`1` allows a token over plain HTTP to another machine",
    "WEFT_TUNING_…": "a number of `[tuning]`, such as `WEFT_TUNING_CAPACITY_POLL=1`",
    "WEFT_DEBUG": "`1` prints weft's notes about its decisions to standard error; 0 by default",
    "SHUTDOWN_TIMEOUT": "milliseconds that attempts have to end when weft is stopped (30000)",
    "WEFT_LIMIT_…": "a limit, such as `WEFT_LIMIT_LLM=6` or `WEFT_LIMIT_STAGE_TEST=2`",
    "MAX_CONCURRENT_TASKS": "agents at a time of a worker process (4), or of a member (1)",
}

HEAD = """# Configuration

<!-- Written by `make reference` from src/weft/config.py and src/weft/agents/agent_file.py. -->

Built-in defaults, then `weft.toml` at the root of the repository, then the environment. Each key is
optional. A command is a line for the shell (`"make test"`) or a list of words without a shell
(`["make", "test"]`). Times are in seconds; in agent files they have units (`60m`).

The limits are those with which a new store starts. From then on the limits of the store hold:
`weft limits` shows them, `weft limits set NAME N` changes them, and a process that is configured
otherwise is refused with the command that reconciles the two.

`weft help schema weft.toml`, `weft help schema agent` and `weft help schema prd.json` print JSON
Schemas for editors. For example, after `weft help schema weft.toml > .weft/weft.schema.json` the
first line of weft.toml may be `#:schema .weft/weft.schema.json`."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    name: str
    default: str
    meaning: str
    type: dict[str, Any]


def sections() -> dict[str, list[Setting]]:
    """Return the settings of weft.toml by table."""
    own = {setting.name: setting for setting in of_record(Config, "")}
    limits = trailing_comments(SOURCES / "config.py")
    tables: dict[str, list[Setting]] = {}
    for section, record in SECTIONS.items():
        if record is not None:
            tables[section] = list(of_record(record, section))
        elif section == "limits":
            tables[section] = [
                Setting(name=name, default=str(value), meaning=limits[f'"{name}"'], type=COUNT)
                for name, value in DEFAULT_LIMITS.items()
            ]
            meaning = "attempts at a time with a provider that agent files name"
            tables[section].append(
                Setting(name="provider:<name>", default="as llm", meaning=meaning, type=COUNT)
            )
        else:
            meaning = own[section].meaning
            tables[section] = [Setting(name="url", default="none", meaning=meaning, type=TEXT)]
        if section == "store":
            tables[section] += [own["listen_url"]]
    return tables


def of_record(record: type[Struct], section: str) -> Iterator[Setting]:
    comments = trailing_comments(SOURCES / "config.py", record.__name__)
    for field in fields(record):
        annotation = comments.annotations[field.name]
        yield Setting(
            name=field.name,
            default=shown(getattr(record(), field.name)),
            meaning=comments[field.name],
            type=NARROWER.get(f"{section}.{field.name}") or TYPES.get(annotation, {}),
        )


def shown(value: object) -> str:
    """Write a default as weft.toml spells it."""
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value) if isinstance(value, str) else str(value)


class Comments(dict[str, str]):
    """The comment behind each field of a class, or behind each key of a dictionary."""

    annotations: dict[str, str]


def trailing_comments(path: Path, class_name: str | None = None) -> Comments:
    text = path.read_text()
    first, last = 1, text.count("\n")
    comments = Comments()
    comments.annotations = {}
    if class_name is not None:
        tree = ast.parse(text)
        [node] = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == class_name]
        first, last = node.lineno, node.end_lineno or last
    for line in text.splitlines()[first - 1 : last]:
        if match := re.match(r"\s+(\w+|\"[^\"]+\"): ?(.*?)(?: = .*?)?,?(?:  # (.*))?$", line):
            comments[match[1]] = match[3] or ""
            comments.annotations[match[1]] = match[2]
    return comments


def agent_settings() -> list[Setting]:
    text = (SOURCES / "agents" / "agent_file.py").read_text().partition("\nSETTINGS: Final[")[2]
    return [
        Setting(name=name, default="none", meaning=meaning, type=AGENT_TYPES[name])
        for meaning, name in re.findall(r'^    # (.*)\n    "(\w+)": ', text, re.MULTILINE)
    ]


def schema_of(title: str, settings: list[Setting]) -> dict[str, Any]:
    properties = {
        setting.name: {"description": setting.meaning, **setting.type}
        for setting in settings
        if "<" not in setting.name
    }
    return {
        "title": title,
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def weft_toml_schema() -> dict[str, Any]:
    tables = {name: schema_of(f"[{name}]", settings) for name, settings in sections().items()}
    tables["limits"]["patternProperties"] = {"^provider:.+$": COUNT}
    return {
        "$schema": DRAFT,
        "title": "weft.toml",
        "type": "object",
        "properties": tables,
        "additionalProperties": False,
    }


def agent_schema() -> dict[str, Any]:
    schema = schema_of("The settings of .weft/agents/<name>.md", agent_settings())
    return {"$schema": DRAFT, **schema, "required": ["runs"]}


def prd_schema() -> dict[str, Any]:
    stories = {"type": "array", "items": {"$ref": "#/$defs/story"}, "minItems": 1}
    types = {"title": PROSE, "description": PROSE, "stories": stories}
    whole = {
        "type": "object",
        "properties": story_properties("ROOT_KEYS", types),
        "anyOf": [{"required": [spelling]} for spelling in spellings_of("stories")],
    }
    named = [{"required": [key], "properties": {key: TEXT}} for key in ("title", "description")]
    subtask = story_properties("SUBTASK_KEYS", STORY_TYPES)
    story = subtask | story_properties("STORY_KEYS", STORY_TYPES)
    return {
        "$schema": DRAFT,
        "title": "prd.json",
        "anyOf": [whole, stories],
        "$defs": {
            "story": {"type": "object", "properties": story, "required": ["id"], "anyOf": named},
            "subtask": {"type": "object", "properties": subtask, "anyOf": named},
        },
    }


def story_properties(keys: str, types: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the properties of a tuple of plan/prd.py; the comment of a key is its meaning."""
    text = (SOURCES / "plan" / "prd.py").read_text()
    text = text.partition(f"\n{keys}: Final = (\n")[2].partition("\n)\n")[0]
    meanings = dict(re.findall(r'^    "(\w+)",  # (.*)$', text, re.MULTILINE))
    if "*JSON_ATTRIBUTES" in text:
        meanings |= ATTRIBUTE_MEANINGS
    return {
        spelling: {"description": meaning, **types[key]}
        for key, meaning in meanings.items()
        for spelling in spellings_of(key)
    }


def spellings_of(key: str) -> list[str]:
    """List a key of prd.json as its authors write it: depends_on, dependsOn, dependencies."""
    first, *rest = key.split("_")
    aliases = [alias for alias, own in prd.ALIASES.items() if own == key]
    camel = [{"userstories": "userStories"}.get(alias, alias) for alias in aliases]
    return list(dict.fromkeys([key, first + "".join(part.title() for part in rest), *camel]))


def table(settings: list[Setting]) -> str:
    rows = [f"| `{s.name}` | {s.default} | {s.meaning} |" for s in settings]
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows])


def page() -> str:
    parts = [HEAD]
    for name, settings in sections().items():
        record = SECTIONS[name]
        summary = f"{record.__doc__}\n\n" if record is not None else ""
        parts.append(f"## [{name}]\n\n{summary}{table(settings)}")
    rows = [f"| `{name}` | {meaning} |" for name, meaning in VARIABLES.items()]
    parts.append("## Environment\n\n" + "\n".join(["| variable | meaning |", "|---|---|", *rows]))
    rows = [f"| `{s.name}` | {s.meaning} |" for s in agent_settings()]
    parts.append(
        "## Agent files\n\nThe settings between two lines of `---` in `.weft/agents/<name>.md`. "
        "Only `runs` is required.\n\n" + "\n".join(["| key | meaning |", "|---|---|", *rows])
    )
    return "\n\n".join(parts) + "\n"


def outputs() -> dict[Path, str]:
    return {
        PAGE: page(),
        SCHEMAS / "weft.toml.json": json.dumps(weft_toml_schema(), indent=2) + "\n",
        SCHEMAS / "agent.json": json.dumps(agent_schema(), indent=2) + "\n",
        SCHEMAS / "prd.json.json": json.dumps(prd_schema(), indent=2) + "\n",
    }


if __name__ == "__main__":
    for path, text in outputs().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
