"""Files in the user's checkout that commands of weft wrote at the user's request.

They are recorded beside the workspaces, so that no worker takes such a file for an agent's change.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from weft import git
from weft.errors import WeftError

_LARGEST: Final = 1 << 18  # bytes of notes


def record_own_write(path: Path) -> None:
    """Record that weft is about to write a file, if a worker may be comparing the checkout."""
    with suppress(WeftError, OSError):
        notes = _notes(git.common_directory(path.parent))
        if not notes.parent.is_dir():
            return
        if notes.exists() and notes.stat().st_size > _LARGEST:
            notes.unlink()
        with notes.open("a", encoding="utf-8") as file:
            file.write(json.dumps([time.time(), str(path.resolve())]) + "\n")


def list_own_writes(common: Path, since: float) -> list[Path]:
    """Return the files that weft wrote since a time."""
    try:
        lines = _notes(common).read_text(encoding="utf-8").splitlines()
        return [Path(path) for at, path in map(json.loads, lines) if at >= since]
    except (OSError, ValueError):
        return []


def _notes(common: Path) -> Path:
    return common / "weft" / "written.jsonl"
