"""Recordings: what a replay costs beside the bare work in it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from bench.figures import figure, median_ratio
from bench.measure_runs import Project, project

_TASKS = 12
_CHECK = [sys.executable, "-c", "import unittest; unittest.main(argv=['x'], exit=False)"]


def _weft(place: Project, *arguments: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "weft", *arguments, "--json"],
        cwd=place.root,
        check=True,
        capture_output=True,
    )
    told: dict[str, object] = json.loads(done.stdout)
    return told


def _record(place: Project) -> tuple[str, list[str]]:
    """Run a plan; return the run, and the recorded patches."""
    tasks = [
        f"- [ ] Write {n}\n  <!-- files: f{n} -->\n  - script: write f{n} new {n}\n"
        for n in range(_TASKS)
    ]
    place.write("weft.toml", f"[gate]\nrun = {json.dumps(_CHECK)}\n")
    place.write("plan.md", "\n".join(tasks))
    run = str(_weft(place, "run", "plan.md", "--no-write")["run"])
    _weft(place, "recordings", "save", run, "-o", "../recordings")
    files = sorted((place.root.parent / "recordings").iterdir())
    return run, [json.loads(file.read_text())["patch"] for file in files]


def _replay(place: Project, run: str) -> float:
    began = time.monotonic()
    told = _weft(place, "recordings", "play", run, "--from", "../recordings", "--fast")
    assert told["same"]
    return time.monotonic() - began


def _apply(place: Project, patches: list[str]) -> float:
    """How long it takes to apply each patch, commit it and check the result, one by one."""
    bare = place.root.parent / "bare"
    subprocess.run(["git", "clone", "-q", place.root, bare], check=True)
    identity = ("-c", "user.name=b", "-c", "user.email=b@b")
    began = time.monotonic()
    for patch in patches:
        subprocess.run(["git", "apply", "--index", "-"], cwd=bare, input=patch.encode(), check=True)
        subprocess.run(["git", *identity, "commit", "-qm", "patch"], cwd=bare, check=True)
        subprocess.run(_CHECK, cwd=bare, check=True, capture_output=True)
    seconds = time.monotonic() - began
    _delete(bare)
    return seconds


def _delete(directory: Path) -> None:
    subprocess.run(["rm", "-rf", directory], check=True)


@figure("replay_ratio", "ratio")
def replay_ratio() -> float:
    """A replay of 12 tasks with --fast ÷ their patches, commits and checks one after another."""
    with project() as place:
        run, patches = _record(place)
        return median_ratio(lambda: _replay(place, run), lambda: _apply(place, patches), rounds=3)
