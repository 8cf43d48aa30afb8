"""A repository with an ended run, a bare remote, and a stand-in for `gh` on the PATH."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gate.gate_run import HASTY, Stage, make_project, run_git
from weft.config import Config
from weft.project.project import Project
from weft.store import open_store

_MEMORY = Path("/dev/shm")
TOKEN = "ghp_0123456789abcdef0123456789abcdef0123"


@dataclass(frozen=True)
class Forge:
    """The directory of the stand-in."""

    home: Path

    def read(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.home / "forge.json").read_text())
        return state

    def change(self, **values: Any) -> None:
        (self.home / "forge.json").write_text(json.dumps({**self.read(), **values}))

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "GH_STAND_IN": str(self.home), "GH_TOKEN": TOKEN}

    def tip(self, branch: str) -> str:
        return run_git(self.home / "remote.git", "rev-parse", branch)


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as directory:
        yield Path(directory)


@pytest.fixture
def stage(home: Path) -> Iterator[Stage]:
    with open_store(f"sqlite:///{home / 'weft.db'}", tuning=HASTY) as store:
        yield Stage(store, make_project(home / "project"))


@pytest.fixture
def forge(home: Path, stage: Stage) -> Forge:
    made = Forge(home / "forge")
    (made.home / "bin").mkdir(parents=True)
    program = Path(__file__).with_name("gh_program.py")
    gh = made.home / "bin" / "gh"
    gh.write_text(f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n')
    gh.chmod(0o755)
    empty: dict[str, Any] = {"requests": [], "issues": [], "faults": [], "calls": []}
    (made.home / "forge.json").write_text(json.dumps(empty))
    run_git(home, "init", "-q", "--bare", str(made.home / "remote.git"))
    run_git(stage.root, "remote", "add", "origin", str(made.home / "remote.git"))
    run_git(stage.root, "push", "-q", "origin", "main")
    return made


@pytest.fixture
def project(stage: Stage, forge: Forge) -> Project:
    return Project(
        root=stage.root,
        config=Config(tuning=HASTY),
        environment=forge.environment,
        store_url=stage.store.url,
    )
