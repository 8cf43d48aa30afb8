"""Issues as `bd` keeps them: what it says of them, and what it is told.

Knows one program and its ways, nothing of runs. When to tell what is the mirror's business.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from weft.errors import WeftError
from weft.process.commands import run_logged

WE: Final = "weft"
"""Whom `bd` takes us for. The same in every run: a claim of ours is ours again after a crash."""

OPEN: Final = "open"
IN_PROGRESS: Final = "in_progress"
BLOCKED: Final = "blocked"
CLOSED: Final = "closed"

_OURS: Final = f"{WE}: "  # begins our paragraph of an issue's notes
_LONGEST: Final = 4000  # letters of that
_FOLDER: Final = ".beads"
_NOT_PASSED: Final = ("GIT_", "WEFT_")  # would point it at another repository; is not its business


class BeadsError(WeftError):
    """`bd` did not do what it was asked."""


class WantedStatus(Struct, frozen=True, kw_only=True):
    """How an issue shall be."""

    status: str
    note: str = ""  # why, or what happened before; empty leaves the notes as they are
    reason: str = ""  # to close it


class Shown(Struct, frozen=True, kw_only=True):
    """How it is. Empty is what `bd` said nothing of."""

    status: str = ""
    assignee: str = ""
    notes: str = ""


class Beads(Struct, frozen=True, kw_only=True):
    """The program, and where it finds its database."""

    program: str
    directory: Path
    environment: Mapping[str, str]

    def show(self, issues: Sequence[str], *, seconds: float) -> dict[str, Shown]:
        """How issues are; those it does not know are left out."""
        output = self._call("show", *issues, "--json", seconds=seconds)
        return _shown(output) if output.strip() else dict.fromkeys(issues, Shown())

    def tell(self, issue: str, shown: Shown, wanted: WantedStatus, *, seconds: float) -> None:
        """Make an issue as it shall be, if it is not."""
        for arguments in changes(issue, shown, wanted):
            self._call(*arguments, seconds=seconds)

    def _call(self, *arguments: str, seconds: float) -> str:
        called = f"`bd {' '.join(arguments[:2])}`"
        with tempfile.TemporaryDirectory(prefix="weft-bd-") as place:
            output, errors = Path(place) / "output", Path(place) / "errors"
            try:
                status = run_logged(
                    [self.program, *arguments],
                    directory=self.directory,
                    environment=self.environment,
                    log=output,
                    errors=errors,
                    seconds=seconds,
                )
            except (WeftError, OSError, ValueError) as error:  # no program; what is no argument
                raise BeadsError(f"{called} cannot be started: {error}.") from error
            if status is None:
                raise BeadsError(f"{called} took more than {seconds:.0f} s.")
            if status != 0:
                said = _last_line(errors) or _last_line(output) or "it said nothing"
                raise BeadsError(f"{called} failed (exit {status}): {said}")
            return output.read_bytes().decode(errors="replace")


def find_beads(plan: Path, environment: Mapping[str, str]) -> Beads | None:
    """`bd` for the issues a plan was exported from; None: it is not on the PATH."""
    program = shutil.which("bd", path=environment.get("PATH", os.defpath))
    if program is None:
        return None
    folder = plan.parent
    kept = {k: v for k, v in environment.items() if not k.startswith(_NOT_PASSED)}
    return Beads(
        program=str(Path(program).absolute()),
        directory=folder.parent if folder.name == _FOLDER else folder,
        # Older versions know the second name only.
        environment={**kept, "BEADS_ACTOR": WE, "BD_ACTOR": WE},
    )


def is_id(name: str) -> bool:
    """Whether `bd` can take it for an id, and for nothing else."""
    return name.isprintable() and not name.startswith("-") and bool(name) and " " not in name


def changes(issue: str, shown: Shown, wanted: WantedStatus) -> list[list[str]]:
    """The calls that make an issue as it shall be; none if it is so. Pure."""
    if shown.status == CLOSED:
        return []  # also by somebody else: that was a decision
    closes = wanted.status == CLOSED
    options = [] if closes or shown.status == wanted.status else _move(shown, wanted.status)
    notes = _noted(shown.notes, wanted.note)
    if notes != shown.notes:
        options += ["--notes", notes]
    calls = [["update", issue, *options]] if options else []
    return [*calls, ["close", issue, "--reason", _clean(wanted.reason)]] if closes else calls


def _move(shown: Shown, status: str) -> list[str]:
    if status == OPEN:
        return ["--status", status, *(["--assignee", ""] if shown.assignee == WE else [])]
    if status != IN_PROGRESS:
        return ["--status", status]
    if shown.assignee not in ("", WE):
        return ["--status", status]  # somebody else's stays theirs
    # Only an open issue can be claimed.
    how = ["--claim"] if shown.status in ("", OPEN) else ["--status", status]
    return [*how, "--assignee", WE]


def _noted(notes: str, text: str) -> str:
    """Notes with our paragraph at their end, in place of the one before: `--notes` replaces all."""
    said = _clean(text)
    if not said:
        return notes
    kept = [one for one in notes.split("\n\n") if not one.startswith(_OURS)]
    return "\n\n".join([*(one for one in kept if one.strip()), _OURS + said])


def _clean(text: str) -> str:
    """One paragraph that can be an argument, whatever an agent put into it."""
    lines = (
        "".join(letter if letter.isprintable() else " " for letter in line).rstrip()
        for line in text.splitlines()
    )
    return "\n".join(line for line in lines if line)[:_LONGEST]


def _shown(output: str) -> dict[str, Shown]:
    try:
        answer = json.loads(output)
    except ValueError as error:
        raise BeadsError(f"What `bd show --json` printed is no JSON: {error}.") from error
    found = answer if isinstance(answer, list) else [answer]
    return {
        str(one["id"]): Shown(
            status=_text(one, "status"),
            assignee=_text(one, "assignee"),
            notes=_text(one, "notes"),
        )
        for one in found
        if isinstance(one, dict) and "id" in one
    }


def _text(issue: Mapping[str, Any], field: str) -> str:
    value = issue.get(field)
    return value if isinstance(value, str) else ""


def _last_line(path: Path) -> str:
    lines = path.read_bytes()[-2000:].decode(errors="replace").splitlines()
    return next((one.strip() for one in reversed(lines) if one.strip()), "")
