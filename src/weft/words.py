"""The words that people read for the state and the name of a task.

The database and JSON keep the states of `model.State` and the numbers of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from weft.formats import clock, listed
from weft.model import HUMAN, PredictedFile, Run, State, Task
from weft.stages import looks

STATE_WORDS: Final[Mapping[str, str]] = {
    State.WAITING: "waiting",
    State.READY: "ready",
    State.OFFERED: "offered",
    State.RUNNING: "working",
    State.PARKED: "parked",
    State.PAUSED: "paused",
    State.GATING: "testing",
    State.BLOCKED: "needs you",
    State.DONE: "done",
    State.SKIPPED: "skipped",
    State.FAILED: "failed",
    State.CANCELLED: "cancelled",
    State.EVICTED: "evicted",
}
ENTRANT_RESULTS: Final[Mapping[str, str]] = {
    "open": "no result yet",
    "green": "green",
    "failed": "no candidate in scope",
    "conflict": "does not merge",
    "gate_red": "fails the gate's check",
    "task_red": "fails the task's check",
}
IN_REVIEW: Final = "in review"
"""The word for a task in a stage that gives a verdict, and for a candidate that waits for a person.
The reason of the task is the same word then."""

_ENTRY_WORDS: Final = {
    "queued": "waiting for its tests",
    "rejected": "sent back",
    "withdrawn": "taken back",
    "passed_on": IN_REVIEW,
}
_ORDER: Final = (
    State.RUNNING,
    State.GATING,
    State.BLOCKED,
    State.READY,
    State.OFFERED,
    State.WAITING,
    State.PARKED,
    State.PAUSED,
    State.FAILED,
    State.CANCELLED,
    State.EVICTED,
    State.SKIPPED,
    State.DONE,
)


def state_word(
    state: str,
    *,
    stage: str | None = None,
    agent: str | None = None,
    until: float | None = None,
    reason: str = "",
) -> str:
    """Return the word for a state; an unknown state is its own word."""
    if (state == State.RUNNING and looks(stage)) or (state, reason) == (State.GATING, IN_REVIEW):
        return IN_REVIEW
    if state == State.READY and agent == HUMAN:
        return STATE_WORDS[State.BLOCKED]
    if state == State.PARKED and until is not None:
        return f"parked until {clock(until)}"
    return STATE_WORDS.get(state, state)


def state_clause(word: str) -> str:
    """Return the words of a state as a verb: `is working`, `needs you`."""
    return word if word == STATE_WORDS[State.BLOCKED] else f"is {word}"


def entry_word(state: str) -> str:
    """Return the word for the state of an entry at the gate."""
    return _ENTRY_WORDS.get(state, state)


def task_state(task: Task) -> str:
    return state_word(
        task.state, stage=task.stage, agent=task.agent, until=task.until, reason=task.reason
    )


def task_clause(task: Task) -> str:
    return state_clause(task_state(task))


def count_states(counts: Mapping[str, int]) -> str:
    """Join the numbers of tasks in each state: `2 working, 1 needs you`."""
    return ", ".join(f"{number} {_plural(state, number)}" for state, number in in_order(counts))


def progress_text(counts: Mapping[Any, int]) -> str:
    """Say how far a run is: `3 of 5 done, 1 skipped, 1 needs you`."""
    rest = {state: number for state, number in counts.items() if state != State.DONE}
    done = f"{counts.get(State.DONE, 0)} of {sum(counts.values())} done"
    return ", ".join(part for part in (done, count_states(rest)) if part)


def in_order(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """List the states that have tasks, the busiest kind of state first."""
    return [(state.value, counts[state]) for state in _ORDER if counts.get(state)]


def _plural(state: str, number: int) -> str:
    word = STATE_WORDS[State(state)]
    return "need you" if state == State.BLOCKED and number != 1 else word


def task_label(number: int, run: str | None, name: str, *, within: str | None = None) -> str:
    """Name a task: `1.2` within its run, `RUN/1.2` elsewhere, its number if it has no run."""
    if not run:
        return str(number)
    return name if run == within else f"{run}/{name}"


def full_label(task: Task) -> str:
    return task_label(task.id, task.run, task.name)


def land_command(run: Run) -> str:
    """Return the command that lands a run; a run from a bare commit has no branch of its own."""
    return f"weft land {run.id}" + ("" if run.branch else " --onto BRANCH")


def describe_prediction(files: Sequence[PredictedFile]) -> str:
    """Return the claimed files with their probabilities, and the hubs; empty without a file."""
    claimed = [f"{file.path} ({file.probability:.0%})" for file in files if file.claimed]
    hubs = [file.path for file in files if file.may_touch]
    may = f"; may touch {listed(hubs, 3)}" if hubs else ""
    return f"{listed(claimed, 3)}{may}" if claimed else ""


def describe_task(task: Task) -> str:
    """Return a task's name for the beginning of a sentence."""
    return f"Task {full_label(task)}"
