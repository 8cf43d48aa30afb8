"""The versions of installed programs."""

from __future__ import annotations

from pathlib import Path

from agents.streams import agent
from weft.project.agent_programs import find_program, versions


def test_a_program_that_starts_slowly_has_a_version_too(tmp_path: Path) -> None:
    for name, seconds in ("gemini", 2), ("opencode", 1.5), ("codex", 0):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nsleep {seconds}\necho {name} 1.2.3\n")
        program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    agents = [agent(name) for name in ("gemini", "opencode", "codex")]
    programs = [(one, find_program(one, tmp_path, environment)) for one in agents]
    assert versions(programs, environment) == {
        str(tmp_path / name): "1.2.3" for name in ("codex", "gemini", "opencode")
    }
