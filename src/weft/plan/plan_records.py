"""The records of a plan, from any kind of file.

Readers build them, `compiler` turns them into a graph, faces render them. The readers resolve
references: a record names other tasks by id and other phases by label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

from weft.formats import first_sentence
from weft.model import HUMAN, Class, PredictedFile, Priority, State
from weft.paths import quote
from weft.teams.team_text import Team

WHOLE_REPOSITORY: Final = "**"
"""The claim of a task that does not name its files."""


NO_FILES: Final = "no-files"
"""The code of the warning that a task does not name its files."""


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Source(StrEnum):
    """The kind of file a plan was read from."""

    MARKDOWN = "plan.md"
    PRD = "prd.json"
    BEADS = "beads"
    TASK_MASTER = "task-master"
    SPEC_KIT = "spec-kit"
    KIRO = "kiro"
    OPENSPEC = "openspec"
    SUPERPOWERS = "superpowers"


class ItemKind(StrEnum):
    """The role of a task in its plan."""

    TASK = "task"
    STORY = "story"  # stands for its subtasks, which land together
    SUBTASK = "subtask"
    EPIC = "epic"  # has children and no files of its own


class EdgeReason(StrEnum):
    """The reason for the order of two tasks."""

    EXPLICIT = "explicit"  # the plan says so
    PHASE = "phase"  # their phases come in this order
    SEQUENTIAL = "sequential"  # their phase is sequential
    MANUAL = "manual"  # a person checks a phase after its work, and step by step
    PART = "part"  # `before` is a part of `after`
    OVERLAP = "overlap"  # both may change the same file; a preference, not a need


class ReaderOptions(Struct, frozen=True, kw_only=True):
    """Choices of the person who has a plan read."""

    format: Source | None = None  # None: found by the name and content of the file
    take: frozenset[str] = frozenset()  # issues to take although they are held back
    now: float = 0.0  # seconds since 1970; an issue deferred until a later time is not taken


class Problem(Struct, frozen=True, kw_only=True):
    """An error in a plan, or a warning for its author."""

    file: str
    line: int
    column: int
    code: str  # stable, for tools: `unknown-task`
    severity: Severity
    message: str  # a sentence
    suggestion: str = ""  # the edit that helps
    pointer: str | None = None  # into a JSON document


class Reference(Struct, frozen=True, kw_only=True):
    """The mention of a task or phase by another task or phase."""

    to: str  # a task's id or a phase's label
    line: int
    column: int = 1


class Budget(Struct, frozen=True, kw_only=True):
    usd: float | None = None
    seconds: int | None = None


class PlanTask(Struct, frozen=True, kw_only=True):
    id: str
    phase: str  # the label of its phase; empty where the source has no phases
    label: str
    text: str  # a single line
    line: int
    column: int = 1
    last_line: int = 0  # where its text ends; write-back puts the commit id and the note there
    details: str = ""  # the rest of it, for the prompt
    criteria: tuple[str, ...] = ()  # acceptance criteria
    status: State = State.WAITING  # waiting, running, done, blocked or skipped
    commit: str | None = None
    note: str = ""  # why it is blocked
    agent: str | None = None
    files: tuple[str, ...] | None = ()  # normalised patterns; None: not said
    new: tuple[str, ...] = ()  # those of `files` that it creates
    predicted: tuple[PredictedFile, ...] = ()  # where it names no files and predictions are used
    reads: tuple[str, ...] = ()
    depends: tuple[Reference, ...] = ()  # tasks
    depends_phases: tuple[Reference, ...] = ()  # whole phases
    group: str | None = None
    stages: tuple[str, ...] = ()
    priority: Priority = Priority.NORMAL
    klass: Class = Class.STANDARD
    budget: Budget | None = None
    uses: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    needs_labels: tuple[str, ...] = ()  # of the worker that does it
    check: str | None = None
    review: bool = False  # a person accepts its candidate before it lands
    team: Team | None = None  # several entrants work on it
    parallel: bool = False  # marked [P]: the author says that it may run beside its neighbours
    named: bool = False  # whether the author chose the id: it stays when the text changes
    kind: ItemKind = ItemKind.TASK
    parent: str | None = None  # the story a subtask belongs to, the epic of a child

    @property
    def title(self) -> str:
        """Its first sentence, at most 80 characters."""
        return first_sentence(self.text)

    @property
    def manual(self) -> bool:
        return self.agent == HUMAN

    @property
    def settled(self) -> bool:
        """True if the task is done or skipped."""
        return self.status in (State.DONE, State.SKIPPED)

    @property
    def claims(self) -> tuple[str, ...]:
        """The patterns it holds while it runs."""
        if self.manual:
            return ()
        if self.files is not None:
            return self.files
        return list_claims(self.predicted) or (WHOLE_REPOSITORY,)


def list_claims(files: Sequence[PredictedFile]) -> tuple[str, ...]:
    """Return the patterns of the predicted files that are claimed."""
    return tuple(quote(file.path) for file in files if file.claimed)


class Phase(Struct, frozen=True, kw_only=True):
    label: str
    title: str
    line: int
    parallel: bool = False
    depends: tuple[Reference, ...] | None = None  # None: after all earlier phases
    checkpoint: str | None = None
    heading: str = ""  # as it is written, without its checkpoint
    annotated: bool = False  # has `execution` or `depends`
    prose: str = ""  # between its heading and its first task


class Plan(Struct, frozen=True, kw_only=True):
    name: str  # of the file
    source: Source
    title: str = ""
    description: str = ""  # its prose before the first task
    phases: tuple[Phase, ...] = ()
    review: bool = False  # a person accepts every candidate before it lands
    tasks: tuple[PlanTask, ...] = ()  # in plan order; a story comes after its subtasks


class ParsedPlan(Struct, frozen=True, kw_only=True):
    """A plan as far as it could be read, and its problems."""

    plan: Plan
    problems: tuple[Problem, ...]


class Edge(Struct, frozen=True, kw_only=True):
    """`before` comes before `after`, both ids of tasks."""

    before: str
    after: str
    why: EdgeReason
    lines: tuple[int, ...] = ()  # in the plan, of the texts that order the tasks
    files: tuple[str, ...] = ()  # that both may change


class Barrier(Struct, frozen=True, kw_only=True):
    """Every task of `before` comes before every task of `after`.

    Stands for so many edges that writing them out would not be linear any more.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    why: EdgeReason
    lines: tuple[int, ...] = ()


class Compiled(Struct, frozen=True, kw_only=True):
    """A plan as a graph.

    `successors` is the graph for `weft.graph`: node i is the i-th task of the plan, and a node for
    each barrier follows the tasks. Overlaps are not in it.
    """

    plan: Plan
    edges: tuple[Edge, ...]
    barriers: tuple[Barrier, ...]
    groups: tuple[tuple[str, ...], ...]  # tasks to be admitted together or not at all
    problems: tuple[Problem, ...]
    successors: tuple[tuple[int, ...], ...]
    width: int
