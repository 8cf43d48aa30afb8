"""Records of candidates on their way to trunk: entries, checks, landings, reviews of people."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from weft.model import ObjectId

UNCHECKED: Final = "none"
"""The id of the check where none is configured; every tree passes it."""


class Entry(Struct, frozen=True, kw_only=True):
    """A candidate in the queue of the gate: the work of a task, or of all subtasks of a story."""

    id: str
    run: str
    state: str  # queued, landing, landed, rejected, withdrawn, passed_on
    looked_at: bool  # goes to review or judge after its checks
    base: ObjectId | None  # the tip of trunk when the gate first saw it
    story: int | None
    tasks: tuple[int, ...]
    work: tuple[tuple[ObjectId, ObjectId], ...]  # commits, each with its base
    needs: frozenset[str]  # entries it builds on
    alone: bool  # in no batch with other entries


class Review(Struct, frozen=True, kw_only=True):
    """A candidate that passed its checks and is shown to a person."""

    entry: str  # the candidate
    run: str
    task: int  # the task, or the story
    round: int
    base: ObjectId  # the tip of trunk that the candidate was merged on
    tree: ObjectId  # of the merge
    state: str  # open, accepted, sent_back, withdrawn
    opened: float
    decided: float | None


class CommentDraft(Struct, frozen=True, kw_only=True):
    """A comment on lines of a candidate, on a file (line 0), or on all of it (no path)."""

    text: str
    path: str = ""
    side: Literal["old", "new"] = "new"
    line: int = 0
    last: int = 0  # the last line of several; 0: `line` alone
    quoted: str = ""  # the text of the lines

    @property
    def lines(self) -> str:
        """The numbers of the lines, such as 3 or 3-5."""
        return f"{self.line}-{self.last}" if self.last > self.line else f"{self.line}"


class ReviewComment(CommentDraft, frozen=True, kw_only=True):
    id: int
    entry: str
    answer: str = ""  # of the agent: handled or answered; '': none
    reason: str = ""


class ReviewRound(Struct, frozen=True, kw_only=True):
    """A review that was sent back, for the agent that makes the candidate again."""

    round: int
    candidates: tuple[str, ...]  # commits that were shown
    comments: tuple[ReviewComment, ...]


class CheckVerdict(Struct, frozen=True, kw_only=True):
    """The result of a check of the tree of a combination of entries."""

    base: str
    combination: tuple[str, ...]
    purpose: str
    tree: str
    check_id: str
    commands: tuple[tuple[str, ...], ...]  # the command lines that were run
    passed: bool
    seconds: float  # 0 where a verdict that was known already was taken over
    number: int = 0  # among those of its run; 0 until it is recorded
    host: str = ""  # the worker host that ran it; '': home

    @property
    def checked(self) -> bool:
        """True if a command ran for it."""
        return self.check_id != UNCHECKED


class NewCheckOrder(Struct, frozen=True, kw_only=True):
    """A check that a gate wants from another host."""

    tree: str
    head: str  # a commit with that tree
    base: str  # the commit below it
    commands: tuple[tuple[str, ...], ...]
    entries: tuple[str, ...]
    machine: str  # the kind of machine whose result counts


class CheckOrder(Struct, frozen=True, kw_only=True):
    """A check that a worker host has taken; its result must carry the fence."""

    fence: int
    run: str
    tree: str
    head: str
    base: str
    commands: tuple[tuple[str, ...], ...]


class HostResult(Struct, frozen=True, kw_only=True):
    """The result of a check on a worker host."""

    tree: str  # the tree that was checked out
    passed: bool
    seconds: float
    output: str
    ran: int  # number of commands, up to the one that failed


class MergeConflict(Struct, frozen=True, kw_only=True):
    """An entry that does not merge on a base after certain entries."""

    base: str
    entry: str
    after: tuple[str, ...]
    report: str


class Landing(Struct, frozen=True, kw_only=True):
    """A move of trunk from `old` to `new`: intended before it happens, landed afterwards."""

    run: str
    sequence: int
    old: ObjectId
    new: ObjectId
    tree: ObjectId
    entries: tuple[str, ...]
    commits: tuple[str, ...]  # of each entry, in that order
    revision: int  # revision of the run's settings used by the check
    every_commit: bool  # all of its commits must have passed, not only the last
    state: str


class BranchLanding(Struct, frozen=True, kw_only=True):
    """A move of a branch of the user to the landed work of a run: intended before it happens."""

    number: int
    run: str
    repo: str
    branch: str  # without refs/heads/
    trunk: ObjectId  # the commit of trunk whose work the branch takes in
    old: ObjectId
    new: ObjectId
    tree: ObjectId  # of `new`
    checkout: str  # the working tree that follows the branch; '': none
    state: str  # intended, landed, withdrawn
    at: float


class GateRows(Struct, frozen=True, kw_only=True):
    """The rows of a run's gate: all of them, or those that still matter."""

    entries: tuple[Entry, ...]  # in order of arrival
    verdicts: tuple[CheckVerdict, ...]
    conflicts: tuple[MergeConflict, ...]
    landings: tuple[Landing, ...]
    rejected: tuple[bool, ...]  # whether each entry that was settled lately was, oldest first
    revision: int  # revision of the run's settings in force
    blocked: str  # the reason why it waits for a person
    ended: bool  # the run is over
    untested: bool = False  # no agent starts before a check of the base has passed

    @property
    def flaky(self) -> frozenset[int]:
        """The numbers of verdicts that contradict an earlier check of the same tree in the same
        way."""
        before: set[tuple[str, str, bool]] = set()
        contradictions = set()
        for verdict in self.verdicts:
            if (verdict.tree, verdict.check_id, not verdict.passed) in before and verdict.tree:
                contradictions.add(verdict.number)
            before.add((verdict.tree, verdict.check_id, verdict.passed))
        return frozenset(contradictions)
