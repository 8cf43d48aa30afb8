"""`weft init`: write `weft.toml` and agent files into a repository, never overwriting a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft.agents.agent import MODEL_PROGRAMS
from weft.config import FILE
from weft.errors import InputError
from weft.maintenance.detection import Detection


class WrittenFile(Struct, frozen=True, kw_only=True):
    path: str  # relative to the repository's root
    created: bool  # False: it was there and was left alone


TEMPLATES: Final = {"loop": "loop_agents"}
"""Sets of agents that `weft init --template` adds, and the directory of each."""


def init(root: Path, detection: Detection, template: str | None = None) -> list[WrittenFile]:
    """Write the files of a repository; `template` names a set of agents besides the usual one."""
    return [_write(root, name, text) for name, text in _files(detection, template)]


def _files(detection: Detection, template: str | None) -> Iterator[tuple[str, str]]:
    templates = resources.files(__package__)
    yield FILE, _settings((templates / "weft.toml").read_text(encoding="utf-8"), detection)
    first = detection.agents[0] if detection.agents else MODEL_PROGRAMS[0]
    agents = {file.name: file for file in (templates / "agents").iterdir()}
    if template is not None:
        agents |= {file.name: file for file in (templates / TEMPLATES[template]).iterdir()}
    for _, file in sorted(agents.items()):
        if file.name.endswith(".md"):
            text = file.read_text(encoding="utf-8")
            yield f".weft/agents/{file.name}", _with_program(text, first)
            if file.name == "implement.md":
                for program in detection.agents[1:]:
                    yield f".weft/agents/{program}.md", _with_program(text, program)


def _settings(template: str, detection: Detection) -> str:
    values: dict[str, object] = {
        "run": detection.check,
        "link": list(detection.link),
        "copy": list(detection.copy),
    }
    for key, value in values.items():
        example = re.search(rf"(?m)^# {key} = .*$", template)
        if value and example:
            # JSON texts and lists are valid TOML.
            line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
            template = template.replace(example[0], line, 1)
    return template


def _with_program(template: str, program: str) -> str:
    return template.replace("runs: claude\n", f"runs: {program}\nsandbox: on\n", 1)


def _write(root: Path, name: str, text: str) -> WrittenFile:
    path = root / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.parent.resolve().is_relative_to(root.resolve()):
            raise InputError(f"{path.parent} is a link that leads out of the repository.")
        # Exclusive creation: neither a file nor a link that is there is ever written to.
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        if path.parent.is_dir():
            return WrittenFile(path=name, created=False)
        raise InputError(f"{path.parent} is in the way: it is not a directory.") from error
    except NotADirectoryError as error:
        raise InputError(f"{path.parent} is in the way: it is not a directory.") from error
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}.") from error
    return WrittenFile(path=name, created=True)
