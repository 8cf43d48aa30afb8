"""A new repository, a plan in which much goes wrong, `weft run`, and a look at what came of it.

    python -m demo [DIRECTORY]

Nothing is pretended: real git, the real weft command, agents that need no model but really crash.
What the plan promises is then looked for in weft's own records; the exit code is 0 if it is all
there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demo.promises import promises

HERE = Path(__file__).parent
WEFT = (sys.executable, "-m", "weft")
SLOTS = 6
TESTS = ("python3", "-m", "unittest", "discover")


def main(arguments: list[str]) -> int:
    directory = Path(arguments[0] if arguments else tempfile.mkdtemp(prefix="weft-demo-")).resolve()
    shop = make_project(directory / "shop")
    before = git(shop, "rev-parse", "HEAD")

    heading(f"A small project in {shop}: 11 tasks, {SLOTS} agents at a time")
    print(f"$ weft run plan.md --slots {SLOTS} --agent scripted", flush=True)
    ended = call(shop, *WEFT, "run", "plan.md", "--slots", str(SLOTS), "--agent", "scripted")
    if ended == 130:
        return ended
    told = json.loads(output(shop, *WEFT, "report", "--json"))

    heading("What the plan had in it, and what became of it")
    kept = [*promises(told), *around(shop, told, before)]
    for holds, what in kept:
        print(f"  {'✓' if holds else '✗ NOT SO:'} {what}")

    branch = f"weft/{told['run']}"
    heading(f"All tests of the project, on {branch}")
    green = run_tests(shop, directory / "landed", branch)

    report = directory / "report.html"
    output(shop, *WEFT, "report", told["run"], "--html", str(report))
    print(f"\nThe report of this run: {report}")
    print(f"The repository it ran in: {shop}")
    return 0 if ended == 0 and green and all(holds for holds, _ in kept) else 1


def make_project(shop: Path) -> Path:
    """The project of the demo as a repository of its own, with the plan."""
    shutil.copytree(HERE / "project", shop)
    shutil.copy(HERE / "plan.md", shop)
    git(shop, "init", "--quiet", "--initial-branch", "main")
    git(shop, "config", "user.name", "You")
    git(shop, "config", "user.email", "you@example.org")
    git(shop, "add", "--all")
    git(shop, "commit", "--quiet", "--message", "A shop that sells coffee")
    return shop


def around(shop: Path, told: dict[str, Any], before: str) -> Iterator[tuple[bool, str]]:
    """What git says, whatever weft's records say."""
    changed = git(shop, "status", "--porcelain").split("\n")
    yield (
        git(shop, "rev-parse", "HEAD") == before and changed == ["M plan.md"],
        "your checkout is where it was; only the marks in plan.md have changed",
    )
    proof = call(shop, *WEFT, "verify", told["run"], quiet=True)
    yield proof == 0, "`weft verify`: every landing is exactly the tree that passed its checks"


def run_tests(shop: Path, place: Path, branch: str) -> bool:
    """The tests on the landed branch, in a checkout that is thrown away."""
    git(shop, "worktree", "add", "--quiet", "--detach", str(place), branch)
    try:
        print(f"$ {' '.join(TESTS)}", flush=True)
        return call(place, *TESTS) == 0
    finally:
        git(shop, "worktree", "remove", "--force", str(place))


def heading(text: str) -> None:
    print(f"\n── {text} ──", flush=True)


def git(directory: Path, *arguments: str) -> str:
    return output(directory, "git", *arguments).strip()


def output(directory: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=directory, env=environment(), check=True, capture_output=True, text=True
    )
    return done.stdout


def call(directory: Path, *command: str, quiet: bool = False) -> int:
    where = subprocess.DEVNULL if quiet else None
    process = subprocess.Popen(command, cwd=directory, env=environment(), stdout=where)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue  # it reached the command too, which knows what to do


def environment() -> dict[str, str]:
    """Yours, without what would lead this to a store or a repository of yours."""
    private = ("WEFT_", "GIT_", "MAX_CONCURRENT_TASKS")
    return {name: value for name, value in os.environ.items() if not name.startswith(private)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
