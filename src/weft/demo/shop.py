"""The project of the demo: a new repository, the commands on it, and the facts that git knows."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from weft.errors import WeftError
from weft.process import Completed, run, run_attached

SLOTS: Final = 6
PLAN_RUN: Final = ("run", "plan.md", "--slots", str(SLOTS), "--agent", "scripted")
GOAL: Final = "Sell soup and salad"
GOAL_PLAN: Final = "soup.md"
GOAL_COMMANDS: Final = (
    ("plan", "new", GOAL, "--output", GOAL_PLAN),
    ("run", GOAL_PLAN, "--slots", str(SLOTS), "--agent", "scripted"),
)
TESTS: Final = ("python3", "-m", "unittest", "discover")

_FILES: Final = Path(__file__).parent
_SECONDS: Final = 600.0  # a bound for a machine that does much else


def make_shop(directory: Path) -> Path:
    """Make a repository with the project and the plan of the demo below `directory`."""
    shop = directory / "shop"
    try:
        shutil.copytree(_FILES / "project", shop, ignore=shutil.ignore_patterns("__pycache__"))
    except FileExistsError:
        raise WeftError(f"{shop} exists already; name another directory.") from None
    shutil.copy(_FILES / "plan.md", shop)
    git(shop, "init", "--quiet", "--initial-branch", "main")
    git(shop, "config", "user.name", "You")
    git(shop, "config", "user.email", "you@example.org")
    git(shop, "add", "--all")
    git(shop, "commit", "--quiet", "--message", "A shop that sells coffee")
    return shop


def git(directory: Path, *arguments: str) -> str:
    return _output(directory, "git", *arguments).strip()


def weft_output(directory: Path, *arguments: str) -> str:
    """Run a command of weft that must succeed; return its standard output."""
    return _output(directory, sys.executable, "-m", "weft", *arguments)


def run_weft(directory: Path, *arguments: str) -> int:
    """Run a command of weft on this terminal."""
    return run_attached(
        (sys.executable, "-m", "weft", *arguments), directory=directory, environment=_environment()
    )


def run_silently(shop: Path, *arguments: str) -> int:
    return _run(shop, sys.executable, "-m", "weft", *arguments).status


def read_report(shop: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(weft_output(shop, "report", "--json"))
    return report


def read_planning(shop: Path) -> dict[str, Any]:
    """Return the use of the planner: its attempts, tokens and dollars."""
    costs = json.loads(weft_output(shop, "report", "--cost", "--json"))
    agents = [agent for run in costs["runs"] for agent in run["agents"]]
    return next((agent for agent in agents if agent["agent"] == "plan"), {"attempts": 0})


def facts_of_git(shop: Path, report: dict[str, Any], before: str) -> Iterator[tuple[bool, str]]:
    """Yield the promises that git decides, whatever weft's records say."""
    changed = git(shop, "status", "--porcelain").split("\n")
    yield (
        git(shop, "rev-parse", "HEAD") == before and changed in (["M plan.md"], ["?? soup.md"]),
        "your checkout is where it was; only the plan has changed",
    )
    proof = _run(shop, sys.executable, "-m", "weft", "verify", report["run"])
    yield (
        proof.status == 0,
        "`weft verify`: each landing is exactly the tree that passed its checks",
    )


def run_tests(shop: Path, branch: str) -> tuple[bool, str]:
    """Run the project's tests on a branch, in a checkout that is removed; return their output."""
    checkout = shop.parent / "landed"
    git(shop, "worktree", "add", "--quiet", "--detach", str(checkout), branch)
    try:
        done = _run(checkout, *TESTS)
    finally:
        git(shop, "worktree", "remove", "--force", str(checkout))
    return done.status == 0, done.output + done.errors


def _run(directory: Path, *command: str) -> Completed:
    return run(command, directory=directory, environment=_environment(), seconds=_SECONDS)


def _output(directory: Path, *command: str) -> str:
    done = _run(directory, *command)
    if done.status != 0:
        raise WeftError(f"`{' '.join(command)}` failed in {directory}: {done.errors.strip()}")
    return done.output


def _environment() -> dict[str, str]:
    """Return the user's variables, without those that lead to a store or repository of theirs."""
    private = ("WEFT_", "GIT_", "MAX_CONCURRENT_TASKS")
    return {name: value for name, value in os.environ.items() if not name.startswith(private)}
