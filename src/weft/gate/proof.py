"""Proof, from git and the store alone, that each landed tree is the tree that was checked.

For every landing of a run: trunk moved from the tip before it to the recorded commit, that commit
holds exactly the recorded tree, that tree passed the commands of the run's settings and tasks, and
each task landed once. Under `every_commit` the tree of each commit of the landing passed. A landing
without a configured check is reported as unchecked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from weft import git
from weft.candidate_records import GateRows, Landing
from weft.config import RunSettings, command_line
from weft.formats import count
from weft.gate.check_run import Command, commands_of
from weft.gate.trunk import ref_name, tree_of
from weft.git.object_store import MissingCommit, ObjectStore, open_object_store
from weft.model import State
from weft.store import Store
from weft.store.branch_landings import list_branch_landings
from weft.store.gate import read_gate
from weft.store.runs import get_run, list_settings
from weft.store.server_operations import ServedProject, hosted
from weft.store.tasks import get_task
from weft.words import task_state
from weft.workspace.names import trunk_ref


class Proof(Struct, frozen=True, kw_only=True):
    run: str
    landings: int
    tasks: int
    unchecked: int  # landings for which no check was configured
    checks: tuple[Command | None, ...]  # the gate's command in each revision of the settings
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.problems


def state_proof(proof: Proof) -> str:
    """State the proved property of a run's landings in a line."""
    tasks, landings = count(proof.tasks, "task"), count(proof.landings, "landing")
    return f"run {proof.run}: {tasks} in {landings}, {_claim(proof)}"


def _claim(proof: Proof) -> str:
    """State the proved property of the landings, and the commands they passed."""
    commands = [command_line(check) for check in proof.checks if check]
    by = f" by {', then '.join(f'`{command}`' for command in commands)}" if commands else ""
    if not proof.unchecked:
        return f"each with exactly the tree that was checked{by}"
    if proof.unchecked == proof.landings:
        return "each with exactly the tree that was merged; nothing was checked: no check is set"
    return (
        f"each with exactly the tree that was checked{by}, but {proof.unchecked} had no check "
        "configured"
    )


@hosted("read")
def prove(place: ServedProject, run: str) -> Proof:
    with place.open_store() as store:
        return verify(store, place.root, run)


def verify(store: Store, repository: Path, run: str) -> Proof:
    rows = read_gate(store, run)
    settings = list_settings(store, run)
    with open_object_store(repository) as objects:
        problems = [
            *_alternates(store, repository, run),
            *_trunk(store, repository, run, rows),
            *_trees(objects, store, rows, settings),
            *_commits(objects, repository, rows, settings),
            *_branches(objects, store, run, rows, settings),
            *_once(store, rows),
        ]
    landed = [landing for landing in rows.landings if landing.state == "landed"]
    tasks = {task for entry in rows.entries if entry.state == "landed" for task in entry.tasks}
    checked = {verdict.tree for verdict in rows.verdicts if verdict.passed and verdict.checked}
    return Proof(
        run=run,
        landings=len(landed),
        tasks=len(tasks),
        unchecked=sum(landing.tree not in checked for landing in landed),
        checks=tuple(
            command for command, _ in groupby(revision.gate.run for revision in settings.values())
        ),
        problems=tuple(problems),
    )


def _alternates(store: Store, repository: Path, run: str) -> Iterator[str]:
    """Report borrowed object stores that appeared since the submission: trunk may depend on
    them."""
    before = get_run(store, run).alternates
    for place in git.list_alternates(repository):
        if place not in before:
            yield (
                f"objects/info/alternates names {place}, which it did not when the run was "
                "submitted, so trunk may depend on objects that are not in this repository; "
                "`git repack -a -d` brings them in, then remove that line"
            )


def _trunk(store: Store, repository: Path, run: str, rows: GateRows) -> Iterator[str]:
    expected = git.get_commit(repository, get_run(store, run).base).id
    for landing in rows.landings:
        if landing.old != expected:
            yield f"landing {landing.sequence} starts at {landing.old}, not at {expected}"
        if landing.state != "landed":
            yield f"landing {landing.sequence} was begun and not completed; `weft worker` does that"
            continue
        expected = landing.new
    where = git.find_ref(repository, trunk_ref(run))
    if where is None:
        # `weft clean` removes a trunk that the user's branch contains.
        if rows.landings and not git.is_ancestor(repository, expected, "HEAD"):
            yield f"{ref_name(run)} is gone"
    elif where != expected:
        if git.is_ancestor(repository, expected, where):
            yield f"{ref_name(run)} has commits that weft did not land, up to {where}"
        else:
            yield f"{ref_name(run)} is at {where} and does not contain {expected}"


def _trees(
    objects: ObjectStore, store: Store, rows: GateRows, settings: Mapping[int, RunSettings]
) -> Iterator[str]:
    """Compare each landing with its recorded tree and with the commands it had to pass."""
    tasks = {entry.id: entry.tasks for entry in rows.entries}
    for landing in rows.landings:
        try:
            tree = tree_of(objects, landing.new)
        except MissingCommit:
            yield f"commit {landing.new} of landing {landing.sequence} is not in the repository"
            continue
        if tree != landing.tree:
            yield f"landing {landing.sequence} holds the tree {tree}, not {landing.tree}"
        required = commands_of(
            settings[landing.revision].gate.run,
            [get_task(store, task) for entry in landing.entries for task in tasks[entry]],
        )
        if landing.tree not in _passed(rows, required):
            yield _unpassed(landing, required, rows)


def _passed(rows: GateRows, commands: Sequence[Command]) -> set[str]:
    """Return the trees that passed all of these commands."""
    return {
        verdict.tree
        for verdict in rows.verdicts
        if verdict.passed and set(verdict.commands).issuperset(commands)
    }


def _unpassed(landing: Landing, required: Sequence[Command], rows: GateRows) -> str:
    which = f"the tree {landing.tree} of landing {landing.sequence}"
    ran = next((v.commands for v in rows.verdicts if v.passed and v.tree == landing.tree), None)
    if ran is None:
        return f"{which} never passed"
    return f"{which} passed {_lines(ran)}, and its run asks for {_lines(required)}"


def _lines(commands: Sequence[Command]) -> str:
    return " and ".join(f"`{command_line(command)}`" for command in commands) or "no check"


def _commits(
    objects: ObjectStore, repository: Path, rows: GateRows, settings: Mapping[int, RunSettings]
) -> Iterator[str]:
    """Look for the commit of each entry among the commits by which its landing moved trunk.

    Under `every_commit` each of these commits must have passed the gate's command.
    """
    for landing in rows.landings:
        try:
            moved = git.list_commits(repository, landing.old, landing.new)
        except git.GitFailed:
            continue  # `_trees` reports the missing object
        for entry, commit in zip(landing.entries, landing.commits, strict=True):
            if commit not in moved:
                yield f"commit {commit} of entry {entry} is not among those of its landing"
        passed = _passed(rows, commands_of(settings[landing.revision].gate.run, ()))
        for commit in moved if landing.every_commit else ():
            tree = tree_of(objects, commit)
            if tree not in passed and commit != landing.new:  # `_trees` reports that tree
                yield (
                    f"the tree {tree} of commit {commit} never passed, and in landing "
                    f"{landing.sequence} each had to"
                )


def _branches(
    objects: ObjectStore,
    store: Store,
    run: str,
    rows: GateRows,
    settings: Mapping[int, RunSettings],
) -> Iterator[str]:
    """Compare each landing on a branch with its recorded tree, and look for a pass of that tree."""
    gates = [revision.gate.run for revision in settings.values()]
    passed = {tree for gate in gates for tree in _passed(rows, commands_of(gate, ()))}
    for landing in list_branch_landings(store, run):
        if landing.state != "landed" or landing.old == landing.new:
            continue  # `weft land` found the work on the branch
        try:
            tree = tree_of(objects, landing.new)
        except MissingCommit:
            yield f"commit {landing.new}, landed on {landing.branch}, is not in the repository"
            continue
        if tree != landing.tree:
            yield f"the landing on {landing.branch} holds the tree {tree}, not {landing.tree}"
        if landing.tree not in passed:
            yield f"the tree {landing.tree}, landed on {landing.branch}, never passed"


def _once(store: Store, rows: GateRows) -> Iterator[str]:
    landed = Counter(entry for landing in rows.landings for entry in landing.entries)
    for entry, times in landed.items():
        if times > 1:
            yield f"entry {entry} landed {times} times"
    tasks = Counter(
        task for entry in rows.entries if entry.state == "landed" for task in entry.tasks
    )
    for number, times in tasks.items():
        task = get_task(store, number)
        if times > 1:
            yield f"task {task.name} landed {times} times"
        if task.state is not State.DONE:
            yield f"task {task.name} landed, but is {task_state(task)}"
