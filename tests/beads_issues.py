"""Issues in a `bd` of our own: a real program on a PATH, whose calls and troubles are known."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

_PROGRAM = Path(__file__).with_name("bd_program.py")


class Issues:
    def __init__(self, place: Path) -> None:
        """A directory for the PATH."""
        self.place = place
        place.mkdir()
        program = place / "bd"
        program.write_text(f"#!{sys.executable} -IS\n{_PROGRAM.read_text()}")
        program.chmod(0o755)
        self._issues: dict[str, dict[str, Any]] = {}

    def add(self, id: str, *needs: str, kind: str = "blocks", **fields: Any) -> str:
        """A new issue; returns its line of an export."""
        issue = {
            "id": id,
            "title": f"Title of {id}",
            "status": "open",
            "assignee": "",
            "notes": "",
            "issue_type": "task",
            "dependencies": [{"issue_id": id, "depends_on_id": to, "type": kind} for to in needs],
            **fields,
        }
        self._issues[id] = issue
        (self.place / "issues").write_text(json.dumps(self._issues))
        return json.dumps(issue) + "\n"

    def now(self, id: str) -> dict[str, Any]:
        return self.all()[id]

    def all(self) -> dict[str, dict[str, Any]]:
        issues: dict[str, dict[str, Any]] = json.loads((self.place / "issues").read_text())
        return issues

    def trouble(self, text: str) -> None:
        (self.place / "trouble").write_text(text)

    def no_more_trouble(self) -> None:
        (self.place / "trouble").unlink()

    def remove_program(self) -> None:
        shutil.move(self.place / "bd", self.place / "gone")

    def raw_calls(self) -> list[dict[str, Any]]:
        file = self.place / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def told(self, id: str | None = None) -> list[list[str]]:
        """What it was told, and not only asked; of one issue, or all."""
        calls = [one["arguments"] for one in self.raw_calls() if one["arguments"][0] != "show"]
        return [one for one in calls if id is None or one[1] == id]
