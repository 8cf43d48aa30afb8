"""The status of a task as write-back puts it into the file of a plan."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from weft.model import State
from weft.plan.source import without_surrogates

RUNNING: Final = frozenset({State.RUNNING, State.PARKED, State.PAUSED, State.GATING})
"""The states of a task that an agent or the gate works on."""

_LONGEST_NOTE: Final = 200
# Characters that would end the note, open a comment or hide the text behind it.
_UNSAFE: Final = str.maketrans({"[": "(", "]": ")", "`": "'", "<": "‹", ">": "›"})


class Status(Struct, frozen=True, kw_only=True):
    """The state of a task to write into the plan."""

    state: State
    commit: str | None = None  # written as it is given: shorten it first
    note: str = ""  # why it is blocked or failed

    @property
    def safe_note(self) -> str:
        """The note as a single safe line, for any text of an agent."""
        note = without_surrogates(self.note[: 4 * _LONGEST_NOTE])
        printable = "".join(letter if letter.isprintable() else " " for letter in note)
        return " ".join(printable.translate(_UNSAFE).split())[:_LONGEST_NOTE].rstrip()
