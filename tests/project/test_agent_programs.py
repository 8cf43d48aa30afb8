"""The versions of installed programs."""

from __future__ import annotations

from pathlib import Path

from agents.streams import agent
from weft.project.agent_programs import find_program, versions


def asked_for(place: Path, seconds: float | None = None, **sleeps: float) -> dict[str, str]:
    """Install programs that sleep before they answer; return their versions by name."""
    for name, sleep in sleeps.items():
        program = place / name
        program.write_text(f"#!/bin/sh\nsleep {sleep}\necho {name} 1.2.3\n")
        program.chmod(0o755)
    environment = {"PATH": f"{place}:/usr/bin:/bin", "HOME": str(place)}
    agents = [agent(name) for name in sleeps]
    programs = [(one, find_program(one, place, environment)) for one in agents]
    limit = {} if seconds is None else {"seconds": seconds}
    answers = versions(programs, environment, **limit)
    return {Path(path).name: version for path, version in answers.items()}


def test_a_program_that_starts_slowly_has_a_version_too(tmp_path: Path) -> None:
    known = asked_for(tmp_path, gemini=2, opencode=1.5, codex=0)
    assert known == dict.fromkeys(("codex", "gemini", "opencode"), "1.2.3")


def test_a_program_that_does_not_tell_its_version_is_not_waited_for(tmp_path: Path) -> None:
    assert asked_for(tmp_path, seconds=0.3, gemini=600) == {}
