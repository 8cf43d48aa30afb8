"""`weft demo`"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from weft.cli.output import json_option, print_json
from weft.demo.promises import promises
from weft.demo.shop import (
    PLAN_RUN,
    SLOTS,
    TESTS,
    facts_of_git,
    git,
    make_shop,
    read_report,
    run_plan_silently,
    run_tests,
    run_weft,
    weft_output,
)


@click.command(name="demo")
@click.argument(
    "place", required=False, metavar="[DIRECTORY]", type=click.Path(path_type=Path, file_okay=False)
)
@json_option
def command(place: Path | None, as_json: bool) -> int:
    """Watch weft at work on a small project, without a model or a key.

    The demo makes a new repository, below DIRECTORY or the directory for temporary files, and runs
    a plan of 11 tasks in which much goes wrong: a rate limit, a conflict, a failing test, a crash.
    git, processes and checks are real; the agents follow a script. Exits with 0 if the run kept
    each promise of the plan.
    """
    directory = (place or Path(tempfile.mkdtemp(prefix="weft-demo-"))).resolve()
    shop = make_shop(directory)
    before = git(shop, "rev-parse", "HEAD")
    tell = partial(click.echo, err=as_json)
    tell(f"\n── A small project in {shop}: 11 tasks, {SLOTS} agents at a time ──")
    tell(f"$ weft {' '.join(PLAN_RUN)}")
    status = run_plan_silently(shop) if as_json else run_weft(shop, *PLAN_RUN)
    if status == 130:
        return status
    report = read_report(shop)
    kept = [*promises(report), *facts_of_git(shop, report, before)]
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


def _print_promises(kept: list[tuple[bool, str]], tell: Callable[[str], None]) -> None:
    tell("\n── The promises of the plan ──")
    for holds, promise in kept:
        tell(f"  {'✓' if holds else '✗ NOT SO:'} {promise}")


def _run_tests(shop: Path, branch: str, tell: Callable[[str], None]) -> bool:
    tell(f"\n── All tests of the project, on {branch} ──\n$ {' '.join(TESTS)}")
    passed, output = run_tests(shop, branch)
    tell(output.rstrip())
    return passed
