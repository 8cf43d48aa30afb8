"""`weft land`, `weft publish` and `weft verify`"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import click
from msgspec.structs import asdict

from weft.candidate_records import BranchLanding
from weft.cli.command_arguments import run_argument
from weft.cli.output import json_option, print_json, say, show
from weft.cli.worker_loops import work_beside
from weft.config import command_line
from weft.errors import InputError
from weft.forge.publication import Publication, PublishKind, publish_run
from weft.gate.branch_landing import Move, MoveKind
from weft.gate.check_jobs import CheckJob
from weft.gate.check_run import CheckResult, find_telling_line
from weft.gate.conflicts import describe
from weft.gate.proof import prove, state_proof
from weft.gate.repair import add_repair_task
from weft.gate.run_landing import (
    BranchCheck,
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
from weft.project.project import Project, get_local_project, get_project
from weft.project.site import Site
from weft.project.warning_log import show_warnings
from weft.runs.task_list import get_run_or_newest
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
    if outcome.conflicts and outcome.rewritten:
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
    if outcome.conflicts:
        return _conflict_lines(outcome)
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


def _conflict_lines(outcome: LandOutcome) -> list[str]:
    rewritten = ", which was rewritten since the run began" if outcome.rewritten else ""
    return [
        f"✗ run {outcome.run} ({outcome.trunk[:12]}) does not merge onto {outcome.branch} "
        f"({outcome.old[:12]}){rewritten}:",
        *describe(outcome.conflicts).splitlines(),
        "Nothing was moved.",
    ]


def _as_dict(outcome: LandOutcome) -> dict[str, Any]:
    return {
        "run": outcome.run,
        "branch": outcome.branch,
        "landed": outcome.landed,
        "kind": outcome.kind,
        "old": outcome.old,
        "new": outcome.new,
        "checkout": outcome.checkout,
        "checked": outcome.checked,
        "undo": outcome.undo or None,
        "settings": outcome.settings,
        "output": outcome.output or None,
        "conflicts": [
            {name: getattr(conflict, name) for name in ("kind", "paths", "text", "hunks")}
            for conflict in outcome.conflicts
        ],
    }


@click.command(name="publish")
@run_argument
@click.option(
    "--onto", metavar="BRANCH", help="Merge into this branch. Default: the branch RUN started from."
)
@json_option
@click.pass_obj
def publishing(directory: Path, run: str | None, onto: str | None, as_json: bool) -> int:
    """Push the branch of a run; open or update its pull request.

    RUN is the newest ended run unless you name one. Your own `gh` or `glab`, or the command under
    [publish] in weft.toml, does the rest: weft sees no token.
    """
    return publish(directory, run, onto, as_json)


def publish(directory: Path, name: str | None, onto: str | None, as_json: bool) -> int:
    show_warnings()
    place = get_local_project(directory, os.environ)
    with place.open_store() as store:
        run = choose_run(store, name)
        done = publish_run(place, store, run, choose_branch(place.root, run, onto))
    show(done, _publication_lines(done), as_json=as_json)
    return 0


def _publication_lines(done: Publication) -> list[str]:
    where = done.url or f"{done.head} onto {done.base}"
    if done.kind is PublishKind.MERGED:
        return [f"✓ {where} was merged on the forge already; nothing was pushed"]
    if done.kind is PublishKind.HANDED_OVER:
        return [f"✓ {done.head} is pushed, and the command has it", *done.output.splitlines()]
    return [f"✓ {done.head} is pushed at {done.commit[:12]}; {done.kind} {where}"]


@click.command(name="verify")
@run_argument
@json_option
@click.pass_obj
def verify(directory: Path, run: str | None, as_json: bool) -> int:
    """Prove that everything a run landed was checked.

    RUN is the newest run unless you name one. Looks at git and the store alone: every landing
    moved trunk from the tip before it and holds exactly the tree that passed the commands which
    `weft runs` names, and no task landed twice.
    """
    here = get_project(directory, os.environ)
    if run is None:
        with here.open_store() as store:
            run = get_run_or_newest(store, None).id
    proof = prove(here, run)
    checks = [check and command_line(check) for check in proof.checks]
    lines = [f"✓ {state_proof(proof)}"] if proof.holds else [f"✗ {p}" for p in proof.problems]
    show({**asdict(proof), "holds": proof.holds, "checks": checks}, lines, as_json=as_json)
    return 0 if proof.holds else 1
