"""Checks of a run's entries: the merged tree, the commands to run on it, and the name of both.

Merges and tasks are remembered: a gate asks for the same combinations again and again.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from weft.attempt.briefing import title
from weft.candidate_records import CheckVerdict, Entry
from weft.gate import check_run, trunk
from weft.gate.check_run import CheckResult, Command
from weft.gate.merge import EntryConflict, EntrySteps, KnownMerges, MergeStep, combine
from weft.gate.policy.gate_records import Check, Combination, Purpose
from weft.gate.trunk import LandingCommit
from weft.git.object_store import ObjectStore
from weft.git.trees import replace_files
from weft.model import Task
from weft.project.site import Site
from weft.store.tasks import get_task
from weft.store.team_rows import task_of_entry
from weft.store.teams import WantedTests


class CheckJob(Struct, frozen=True, kw_only=True):
    """A tree to check and the commands to run on it."""

    check: Check
    tree: str
    commands: tuple[Command, ...]
    check_id: str
    files: str  # the name of the set-up files that the check will find
    own: tuple[Command, ...] = ()  # of a base: checks of tasks, which only have to start


def make_verdict(job: CheckJob, result: CheckResult) -> CheckVerdict:
    return CheckVerdict(
        base=job.check.base,
        combination=job.check.combination,
        purpose=job.check.purpose.value,
        tree=job.tree,
        check_id=job.check_id,
        commands=job.commands if result.passed else result.ran,
        passed=result.passed,
        seconds=result.seconds,
        host=result.host,
    )


class CheckJobs:
    def __init__(self, site: Site, objects: ObjectStore) -> None:
        """Make jobs for a run; `site` has its settings."""
        self._site = site
        self._objects = objects
        self._tasks: dict[int, Task] = {}  # as submitted: their names and their own checks
        self._check_ids: dict[tuple[tuple[Command, ...], str], str] = {}
        self._merged: dict[tuple[str, Combination], EntrySteps | EntryConflict] = {}
        self._merges: KnownMerges = {}

    def get_task(self, number: int) -> Task:
        if number not in self._tasks:
            self._tasks[number] = get_task(self._site.store, number)
        return self._tasks[number]

    def combine(self, base: str, entries: Sequence[Entry]) -> EntrySteps | EntryConflict:
        key = (base, tuple(entry.id for entry in entries))
        if key not in self._merged:
            self._merged[key] = combine(self._objects, base, entries, self._merges)
        return self._merged[key]

    def forget_merges(self) -> None:
        self._merged.clear()
        self._merges.clear()

    def make(self, check: Check, entries: Sequence[Entry], files: str) -> CheckJob | EntryConflict:
        """Merge a combination and return the commands to run on it."""
        merged = self.combine(check.base, entries)
        if isinstance(merged, EntryConflict):
            return merged
        commands = self._commands(entries)
        return CheckJob(
            check=check,
            tree=merged[-1][-1].tree,
            commands=commands,
            check_id=self._check_id(commands, files),
            files=files,
        )

    def make_for_tests(self, check: Check, tests: WantedTests, files: str) -> CheckJob:
        """Return the check of a candidate with the new tests of another candidate of its team."""
        task = self.get_task(task_of_entry(tests.candidate))
        commands = check_run.commands_of(self._site.config.gate.run, [task])
        return CheckJob(
            check=check,
            tree=replace_files(self._site.root, tests.tree, tests.commit, tests.paths),
            commands=commands,
            # The tree is no candidate: no landing may count this verdict.
            check_id=f"{Purpose.TESTS}:{self._check_id(commands, files)}",
            files=files,
        )

    def check_id(self, entries: Sequence[Entry], files: str) -> str:
        return self._check_id(self._commands(entries), files)

    def _commands(self, entries: Sequence[Entry]) -> tuple[Command, ...]:
        tasks = [self.get_task(task) for entry in entries for task in entry.tasks]
        return check_run.commands_of(self._site.config.gate.run, tasks)

    def _check_id(self, commands: tuple[Command, ...], files: str) -> str:
        key = (commands, files)
        if key not in self._check_ids:
            config = self._site.config
            environment = check_run.environment(config, self._site.environment)
            self._check_ids[key] = check_run.check_id(commands, config, environment, files)
        return self._check_ids[key]

    def commits_of(self, entry: Entry, steps: Sequence[MergeStep]) -> list[LandingCommit]:
        """Return the commits that land an entry."""
        for task in entry.tasks:
            if (merge := self.get_task(task).request.merge) is not None:
                return trunk.commit_of_repair(entry, steps, merge)
        gate = self._site.config.gate
        # Of a story's commits, only the tree of the last was checked.
        whole = gate.squash == "story" or gate.every_commit
        story = title(self.get_task(entry.story)) if entry.story is not None and whole else None
        return trunk.commits_of(entry, steps, story)
