"""`weft land`"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import click

from weft.candidate_records import BranchLanding
from weft.cli.output import json_option, print_json, say
from weft.cli.task_arguments import run_argument
from weft.cli.worker_loops import work_beside
from weft.errors import InputError
from weft.gate.branch_check import BranchCheck
from weft.gate.branch_landing import Move, MoveKind, UnmergeableRun
from weft.gate.check_pool import CheckJob
from weft.gate.check_run import CheckResult, find_telling_line
from weft.gate.conflicts import describe
from weft.gate.repair import add_repair_task
from weft.gate.run_landing import (
    LandContext,
    LandOutcome,
    choose_branch,
    choose_run,
    complete_interrupted,
    hold_land_lock,
    land_at_home,
    land_run,
    list_unlanded,
)
from weft.model import Task
from weft.project.project import Project, get_project
from weft.project.site import Site
from weft.store import Store
from weft.worker.engine import Interrupted

_NAMED: Final = 5  # runs that the last line names


@click.command(name="land")
@run_argument
@click.option(
    "--onto", metavar="BRANCH", help="Land on this branch. Default: the branch RUN started from."
)
@click.option(
    "--repair",
    is_flag=True,
    help="If the run does not merge or fails its check, add a task to the run that repairs this.",
)
@click.option("--pr", is_flag=True, help="Open or update a pull request instead: weft publish.")
@json_option
@click.pass_obj
def command(
    directory: Path, run: str | None, onto: str | None, repair: bool, pr: bool, as_json: bool
) -> int:
    """Move your branch to the tested work of a run.

    RUN is the newest ended run unless you name one. If the branch has moved since the run began,
    the run is merged onto it and exactly the merged tree is checked first. On a conflict or a
    failed check nothing moves. The checkout of the branch follows if it has no changes of yours.
    Interrupted anywhere, `weft land` again completes it.
    """
    if pr:
        from weft.cli.publish import publish  # late: `weft land` needs no forge

        return publish(directory, run, onto, as_json)
    place = get_project(directory, os.environ)
    if place.server is not None:
        if repair:
            raise InputError("--repair works where the repository is, not over a server.")
        return _print(land_at_home(place, run, onto), [], None, [], as_json)
    with place.open_store() as store, hold_land_lock(place.root, _tell_wait) as lock:
        context = LandContext(
            project=place,
            store=store,
            check=lambda move, job: check_merged(place, store, move, job),
            lock=lock,
            at=lambda point: None,
        )
        completed = complete_interrupted(context)
        chosen = choose_run(store, run)
        outcome = land_run(context, chosen, choose_branch(place.root, chosen, onto))
        task = add_repair_task(context, chosen, outcome) if repair and not outcome.landed else None
        unlanded = list_unlanded(store)
    return _print(outcome, completed, task, unlanded, as_json)


def _print(
    outcome: LandOutcome,
    completed: list[BranchLanding],
    task: Task | None,
    unlanded: list[str],
    as_json: bool,
) -> int:
    if as_json:
        more = {"completed": [left.number for left in completed], "repair": task and task.id}
        print_json({**_as_dict(outcome), **more, "unlanded": unlanded})
    else:
        for line in (*_completed_lines(completed), *_lines(outcome), *_next_lines(outcome, task)):
            say(line)
        if outcome.landed and unlanded:
            say(f"ended and not landed: {', '.join(unlanded[:_NAMED])}")
    return 0 if outcome.landed else 1


def _next_lines(outcome: LandOutcome, task: Task | None) -> list[str]:
    run = outcome.run
    if outcome.landed:
        return []
    if task is not None:
        added = f"Task {task.id} ({run}/{task.name}) was added to the run, for agent {task.agent}."
        return [added, f"next: weft run --resume {run}, then weft land {run}"]
    if outcome.trouble is not None and outcome.trouble.rewritten:
        return []
    return [f"next: weft land {run} --repair, which gives this to an agent of the run"]


def _tell_wait() -> None:
    click.echo("weft: another `weft land` is at work in this repository; waiting for it.", err=True)


def check_merged(place: Project, store: Store, move: Move, job: CheckJob) -> CheckResult:
    results: list[CheckResult] = []

    async def check(site: Site, worker: str) -> None:
        results.append(await BranchCheck(site.for_run(move.run), move.run, job).run(worker))

    moved = "was rewritten" if move.kind is MoveKind.REPLAY else "has moved"
    click.echo(
        f"weft: {move.branch} {moved} since the run began; checking the merged tree …", err=True
    )
    try:
        work_beside(place, store, check)
    except Interrupted:
        click.echo("weft: interrupted; nothing was moved.", err=True)
        raise KeyboardInterrupt from None
    return results[0]


def _completed_lines(completed: list[BranchLanding]) -> list[str]:
    return [
        f"completed an interrupted landing: run {left.run} is on {left.branch} at {left.new[:12]}"
        for left in completed
    ]


def _lines(outcome: LandOutcome) -> list[str]:
    run, branch = outcome.run, outcome.branch
    if outcome.trouble is not None:
        return _conflict_lines(outcome.trouble)
    if outcome.output:
        return [
            f"✗ run {run} merges onto {branch} ({outcome.old[:12]}), but the merged tree fails its "
            f"check: {find_telling_line(outcome.output)}",
            *(f"  {line}" for line in outcome.output.splitlines()),
            "Nothing was moved.",
        ]
    if outcome.kind is MoveKind.NONE:
        return [f"✓ {branch} has all work of run {run} already"]
    how = {
        MoveKind.FORWARD: "moved forward",
        MoveKind.MERGE: "merged",
        MoveKind.REPLAY: "copied onto the rewritten branch",
    }[outcome.kind]
    unchecked = "" if outcome.checked else "; no check is configured"
    settings = [f"! it changed settings of weft: {', '.join(outcome.settings)}; look at them"]
    follows = [f"  your checkout followed: {outcome.checkout}"] if outcome.checkout else []
    return [
        *(settings if outcome.settings else ()),
        f"✓ run {run} is landed: {branch} is at {outcome.new[:12]} ({how}{unchecked})",
        *follows,
        f"undo: {outcome.undo}",
    ]


def _conflict_lines(trouble: UnmergeableRun) -> list[str]:
    rewritten = ", which was rewritten since the run began" if trouble.rewritten else ""
    return [
        f"✗ run {trouble.run} ({trouble.trunk[:12]}) does not merge onto {trouble.branch} "
        f"({trouble.old[:12]}){rewritten}:",
        *describe(trouble.conflicts).splitlines(),
        "Nothing was moved.",
    ]


def _as_dict(outcome: LandOutcome) -> dict[str, Any]:
    trouble = outcome.trouble
    conflicts = () if trouble is None else trouble.conflicts
    return {
        "run": outcome.run,
        "branch": outcome.branch,
        "landed": outcome.landed,
        "kind": outcome.kind.value,
        "old": outcome.old,
        "new": outcome.new,
        "checkout": outcome.checkout,
        "checked": outcome.checked,
        "undo": outcome.undo or None,
        "settings": list(outcome.settings),
        "output": outcome.output or None,
        "conflicts": [
            {
                "kind": conflict.kind.value,
                "paths": list(conflict.paths),
                "text": conflict.text,
                "hunks": conflict.hunks,
            }
            for conflict in conflicts
        ],
    }
