"""The versions of installed programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.streams import agent
from process.test_box import ENGINE, IMAGE, OPTIONS
from process.test_box import container as container
from repositories import make_repository
from weft.config import Config, SandboxSettings
from weft.process.box import Container
from weft.project.agent_programs import explain_all_unreachable, find_program, versions


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


@pytest.mark.parametrize(
    ("command", "reason"),
    [("sleep", None), ("absent", f"the image {IMAGE} has no absent: install it there.")],
)
def test_a_program_is_looked_for_in_the_image_of_its_containers(
    tmp_path: Path, container: Container, command: str, reason: str | None
) -> None:
    root = make_repository(tmp_path / "project")
    own = agent(f"[{command}]", settings="sandbox: container\n")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    libraries = ("/usr", "/lib", "/lib64")
    sandbox = SandboxSettings(image=IMAGE, engine=ENGINE, options=OPTIONS, read=libraries)
    config = Config(sandbox=sandbox)
    program = find_program(own, root, environment)
    told = list(explain_all_unreachable([(own, program)], config, environment, root))
    assert told == ([] if reason is None else [(f"Agent {own.name}", reason)])
