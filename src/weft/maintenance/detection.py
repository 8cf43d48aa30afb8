"""The facts of a checkout and a machine that `weft init` writes into its files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.agents.agent import MODEL_PROGRAMS
from weft.config import BoxKind
from weft.git.repository import find_ignored
from weft.maintenance.suggested_check import SuggestedCheck, suggest_check
from weft.process import box

_ENVIRONMENTS: Final = (".venv", "venv", "node_modules")
_SETTINGS_FILES: Final = (".env", ".env.local", ".env.test", ".env.development")
_LARGEST: Final = 1 << 16  # bytes of a file that describes an install


class Detection(Struct, frozen=True, kw_only=True):
    agents: tuple[str, ...]  # installed programs, the first choice first
    test: SuggestedCheck | None
    missing_program: bool = False  # the program of the test command is not installed
    link: tuple[str, ...] = ()
    copy: tuple[str, ...] = ()
    editable: str | None = None  # directory of sources that an editable install leads to
    sandbox: BoxKind

    @property
    def check(self) -> str | None:
        """The line for `[gate] run`."""
        if self.test is None:
            return None
        if self.editable is None:
            return self.test.line
        # Otherwise the check would import the user's checkout and test the wrong code.
        return f'export PYTHONPATH="$PWD{self.editable}" && {self.test.line}'


def detect(root: Path, environment: Mapping[str, str]) -> Detection:
    """Look for agents, the test command, ignored files that tests need, and a sandbox."""
    directories = environment.get("PATH") or os.defpath

    def has_program(name: str) -> bool:
        place = str(root / name) if "/" in name else name
        return shutil.which(place, path=directories) is not None

    test = suggest_check(root, has_program)
    link = tuple(_ignored(root, _ENVIRONMENTS))
    return Detection(
        agents=tuple(name for name in MODEL_PROGRAMS if has_program(name)),
        test=test,
        missing_program=test is not None and not has_program(test.program),
        link=link,
        copy=tuple(_ignored(root, _SETTINGS_FILES)),
        editable=next(_editable_sources(root, link), None),
        sandbox=box.available().resolve(BoxKind.ON),
    )


def with_check(detection: Detection, line: str) -> Detection:
    """Return the detection with the check that a person entered; `-` means no check."""
    if line == "-":
        return replace(detection, test=None)
    if line == detection.check:
        return detection
    test = SuggestedCheck(line=line, source="your answer", program=line.split()[0])
    return replace(detection, test=test, editable=None, missing_program=False)


def _ignored(root: Path, names: tuple[str, ...]) -> Iterator[str]:
    """Yield the names that exist, are no links, and are ignored by git."""
    there = [name for name in names if (root / name).exists() and not (root / name).is_symlink()]
    ignored = find_ignored(root, there) if there else set()
    yield from (name for name in there if name in ignored)


def _editable_sources(root: Path, environments: tuple[str, ...]) -> Iterator[str]:
    """Yield `/src` or "" for an editable install that leads to this checkout."""
    for name in environments:
        for site in (root / name).glob("lib/python3*/site-packages"):
            for file in (*site.glob("*.pth"), *site.glob("*.dist-info/direct_url.json")):
                if _leads_to(root, file):
                    yield "/src" if (root / "src").is_dir() else ""


def _leads_to(root: Path, file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            text = opened.read(_LARGEST).decode(errors="replace")
    except OSError:
        return False
    if file.name == "direct_url.json":
        return '"editable"' in text and root.resolve().as_uri() in text
    return any(line.startswith(str(root.resolve())) for line in text.splitlines())
