"""The program `bd`: its calls, and the issues as it shows them. It knows no runs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from weft.errors import WeftError
from weft.git import common_directory
from weft.git.disk import scratch_directory
from weft.plan.beads import OWN_ACTOR, is_own
from weft.process.commands import run_logged

OPEN: Final = "open"
IN_PROGRESS: Final = "in_progress"
BLOCKED: Final = "blocked"
CLOSED: Final = "closed"
DISCOVERED: Final = "discovered-from"

_OURS: Final = f"{OWN_ACTOR}: "  # begins our paragraph of an issue's notes
_LONGEST: Final = 4000  # letters of that
_LONGEST_TITLE: Final = 500  # what bd takes
_FOLDER: Final = ".beads"
_NOT_PASSED: Final = ("GIT_", "WEFT_")  # would point it at another repository; is not its business


class BeadsError(WeftError):
    """A call of `bd` failed."""


class WantedStatus(Struct, frozen=True, kw_only=True):
    status: str
    note: str = ""  # the reason, or a failure before; empty leaves the notes as they are
    reason: str = ""  # to close it
    assignee: str = OWN_ACTOR  # while it is in progress


class Shown(Struct, frozen=True, kw_only=True):
    """An issue as `bd show` prints it; fields that it leaves out are empty."""

    status: str = ""
    assignee: str = ""
    notes: str = ""
    discovered: tuple[str, ...] = ()  # titles of the issues that were discovered from it


class Beads(Struct, frozen=True, kw_only=True):
    """The program, and where it finds its database."""

    program: str
    directory: Path
    environment: Mapping[str, str]

    def show(self, issues: Sequence[str], *, seconds: float) -> dict[str, Shown]:
        """Ask `bd` for issues; leave out those it does not know."""
        output = self._call("show", *issues, "--json", seconds=seconds)
        return _shown(output) if output.strip() else dict.fromkeys(issues, Shown())

    def tell(self, issue: str, shown: Shown, wanted: WantedStatus, *, seconds: float) -> None:
        """Give an issue the wanted status, unless it has it."""
        for arguments in changes(issue, shown, wanted):
            self._call(*arguments, seconds=seconds)

    def discover(self, issue: str, title: str, text: str, *, seconds: float) -> None:
        """Create an issue that was discovered from another, unless it is there already."""
        title, text = _clean(title)[:_LONGEST_TITLE], _clean(text)
        if title in self.show([issue], seconds=seconds).get(issue, Shown()).discovered:
            return
        description = [f"--description={text}"] if text else []
        self._call(
            *("create", f"--title={title}", *description, f"--deps={DISCOVERED}:{issue}"),
            seconds=seconds,
        )

    def _call(self, *arguments: str, seconds: float) -> str:
        called = f"`bd {' '.join(arguments[:2])}`"
        with scratch_directory(common_directory(self.directory)) as place:
            output, errors = place / "output", place / "errors"
            try:
                status = run_logged(
                    [self.program, *arguments],
                    directory=self.directory,
                    environment=self.environment,
                    log=output,
                    errors=errors,
                    seconds=seconds,
                )
            except (WeftError, OSError, ValueError) as error:  # no program, or a NUL in an argument
                raise BeadsError(f"{called} cannot be started: {error}.") from error
            if status is None:
                raise BeadsError(f"{called} took more than {seconds:.0f} s.")
            if status != 0:
                message = _last_line(errors) or _last_line(output) or "it said nothing"
                raise BeadsError(f"{called} failed (exit {status}): {message}")
            return output.read_bytes().decode(errors="replace")


def find_beads(plan: Path, environment: Mapping[str, str]) -> Beads | None:
    """Find `bd` for the issues a plan was exported from; None if it is not on the PATH."""
    program = shutil.which("bd", path=environment.get("PATH", os.defpath))
    if program is None:
        return None
    folder = plan.parent
    kept = {k: v for k, v in environment.items() if not k.startswith(_NOT_PASSED)}
    return Beads(
        program=str(Path(program).absolute()),
        directory=folder.parent if folder.name == _FOLDER else folder,
        # Older versions know the second name only.
        environment={**kept, "BEADS_ACTOR": OWN_ACTOR, "BD_ACTOR": OWN_ACTOR},
    )


def is_id(name: str) -> bool:
    """Tell whether `bd` takes a name for an id, and not for an option."""
    return name.isprintable() and not name.startswith("-") and bool(name) and " " not in name


def changes(issue: str, shown: Shown, wanted: WantedStatus) -> list[list[str]]:
    """List the calls that give an issue the wanted status. Pure."""
    if shown.status == CLOSED:
        return []  # a person may have closed it, and decided so
    closes = wanted.status == CLOSED
    options = [] if closes else _move(shown, wanted)
    notes = _noted(shown.notes, wanted.note)
    if notes != shown.notes:
        options += ["--notes", notes]
    calls = [["update", issue, *options]] if options else []
    return [*calls, ["close", issue, "--reason", _clean(wanted.reason)]] if closes else calls


def _move(shown: Shown, wanted: WantedStatus) -> list[str]:
    status, moves = wanted.status, shown.status != wanted.status
    how = ["--status", status] if moves else []
    if status == OPEN and moves:
        return [*how, *(["--assignee", ""] if is_own(shown.assignee) else [])]
    if status != IN_PROGRESS or (shown.assignee and not is_own(shown.assignee)):
        return how  # the assignee stays
    if shown.status in ("", OPEN) and shown.assignee in ("", OWN_ACTOR):
        how = ["--claim"]  # refused if another has claimed it, or if it is not open
    differs = moves or shown.assignee != wanted.assignee
    return [*how, *(["--assignee", wanted.assignee] if differs else [])]


def _noted(notes: str, text: str) -> str:
    """Replace weft's paragraph at the end of the notes, since `--notes` replaces all of them."""
    note = _clean(text)
    if not note:
        return notes
    kept = [part for part in notes.split("\n\n") if part.strip() and not part.startswith(_OURS)]
    return "\n\n".join([*kept, _OURS + note])


def _clean(text: str) -> str:
    """Make a paragraph that can be an argument from any text of an agent."""
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
    issues = answer if isinstance(answer, list) else [answer]
    return {
        str(issue["id"]): Shown(
            status=_text(issue, "status"),
            assignee=_text(issue, "assignee"),
            notes=_text(issue, "notes"),
            discovered=tuple(
                _text(each, "title")
                for each in issue.get("dependents") or ()
                if isinstance(each, dict) and _text(each, "dependency_type") == DISCOVERED
            ),
        )
        for issue in issues
        if isinstance(issue, dict) and "id" in issue
    }


def _text(issue: Mapping[str, Any], field: str) -> str:
    value = issue.get(field)
    return value if isinstance(value, str) else ""


def _last_line(path: Path) -> str:
    lines = path.read_bytes()[-2000:].decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
