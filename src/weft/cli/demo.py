"""`weft demo`"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

import click

from weft.cli.output import json_option, print_json
from weft.demo.promises import goal_promises, promises
from weft.demo.shop import (
    GOAL_COMMANDS,
    PLAN_RUN,
    SLOTS,
    TESTS,
    facts_of_git,
    git,
    make_shop,
    read_planning,
    read_report,
    run_silently,
    run_tests,
    run_weft,
    weft_output,
)


class Scene(StrEnum):
    TROUBLE = "trouble"
    GOAL = "goal"


@click.command(name="demo")
@click.argument(
    "place", required=False, metavar="[DIRECTORY]", type=click.Path(path_type=Path, file_okay=False)
)
@click.option(
    "--scene",
    type=click.Choice([scene.value for scene in Scene]),
    default=Scene.TROUBLE.value,
    help="`trouble` (default): a plan in which much goes wrong. `goal`: an agent plans a goal.",
)
@json_option
def command(place: Path | None, scene: str, as_json: bool) -> int:
    """Watch weft at work on a small project, without a model or a key.

    The demo makes a new repository, below DIRECTORY or the directory for temporary files, and runs
    a plan of 11 tasks in which much goes wrong: a rate limit, a conflict, a failing test, a crash.
    With `--scene goal` an agent first writes the plan, in two rounds. git, processes and checks are
    real; the agents follow a script. Exits with 0 if the run kept each promise of the plan.
    """
    directory = (place or Path(tempfile.mkdtemp(prefix="weft-demo-"))).resolve()
    shop = make_shop(directory)
    before = git(shop, "rev-parse", "HEAD")
    tell = partial(click.echo, err=as_json)
    tell(f"\n── {_HEADS[Scene(scene)].format(shop=shop)}, {SLOTS} agents at a time ──")
    status = 0
    for arguments in GOAL_COMMANDS if scene == Scene.GOAL else (PLAN_RUN,):
        tell(f"$ weft {shlex.join(arguments)}")
        run = run_silently if as_json else run_weft
        status = run(shop, *arguments)
        if status:
            break
    if status == 130:
        return status
    report = read_report(shop)
    own = goal_promises(report, read_planning(shop)) if scene == Scene.GOAL else promises(report)
    kept = [*own, *facts_of_git(shop, report, before)]
    _print_promises(kept, tell)
    passed = _run_tests(shop, f"weft/{report['run']}", tell)
    page = directory / "report.html"
    weft_output(shop, "report", report["run"], "--html", str(page))
    good = status == 0 and passed and all(holds for holds, _ in kept)
    if as_json:
        promised = [{"promise": promise, "kept": holds} for holds, promise in kept]
        places = {"repository": str(shop), "report": str(page)}
        print_json({"ok": good, "tests_passed": passed, "promises": promised, **places})
    else:
        click.echo(f"\nThe report of this run: {page}\nThe repository it ran in: {shop}")
    return 0 if good else 1


_HEADS: Final = {
    Scene.TROUBLE: "A small project in {shop}: 11 tasks",
    Scene.GOAL: "A small project in {shop}: a goal becomes a plan",
}


def _print_promises(kept: list[tuple[bool, str]], tell: Callable[[str], None]) -> None:
    tell("\n── The promises of the plan ──")
    for holds, promise in kept:
        tell(f"  {'✓' if holds else '✗ NOT SO:'} {promise}")


def _run_tests(shop: Path, branch: str, tell: Callable[[str], None]) -> bool:
    tell(f"\n── All tests of the project, on {branch} ──\n$ {' '.join(TESTS)}")
    passed, output = run_tests(shop, branch)
    tell(output.rstrip())
    return passed
