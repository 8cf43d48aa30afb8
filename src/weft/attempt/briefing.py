"""The briefing of an agent: its task, earlier results, and the last refusal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from weft.agents.next_agents import NextAgent
from weft.agents.prompt import (
    Briefing,
    HandedOver,
    InterruptedWork,
    LandedChange,
    NeededTask,
    PromptMessage,
    SentTask,
)
from weft.candidate_records import ReviewRound
from weft.formats import first_sentence
from weft.model import (
    ASKED,
    BELOW_TEAM,
    PROPOSAL,
    SLEPT,
    Attempt,
    ErrorClass,
    Event,
    Grant,
    Hop,
    Message,
    Task,
)
from weft.stages import LOOKING

_TO_BLAME: Final = frozenset(
    {
        ErrorClass.NO_CHANGE,
        ErrorClass.SCOPE,
        ErrorClass.TIMEOUT,
        ErrorClass.OTHER,
        PROPOSAL,
        *LOOKING,
    }
)

NO_PROSE: Final[Mapping[str, str]] = MappingProxyType({})


def brief(
    task: Task,
    grant: Grant,
    *,
    needs: Iterable[tuple[Task, str]],
    history: Sequence[Event],
    tests: tuple[str, ...] = (),
    subject: tuple[str, str] | None = None,
    messages: Sequence[Message] = (),
    sent: Sequence[Task] = (),
    review: ReviewRound | None = None,
    hop: Hop | None = None,
    steps: tuple[NextAgent, ...] = (),
    tools: bool = False,
    prose: Mapping[str, str] = NO_PROSE,
    candidates: tuple[str, ...] = (),
    interrupted: Attempt | None = None,
) -> Briefing:
    """Collect the content of a prompt.

    `needs` are the needed tasks, each with its commit; `subject` is a reviewed candidate and its
    base; `sent` are the tasks that a lead has sent; `review` is a round that was sent back; `hop`
    is the hand-over to its agent, and `steps` are the agents that may follow; `prose` is that of
    the plan, and of its phases by title; `candidates` are diffs to compare; `interrupted` is the
    attempt whose work goes on without its session.
    """
    asked = task.request
    return Briefing(
        # An entrant knows nothing of the others, a judge nothing of the order of the entrants.
        task=task.name.rpartition("/")[0] if asked.kind in BELOW_TEAM else task.name,
        title=title(task),
        text=task.text,
        plan=asked.plan,
        phase=asked.phase,
        stage=grant.stage or "",
        attempt=grant.attempt,
        files=() if subject else grant.files,
        predicted=bool(asked.predicted),
        tests=tests,
        change=None if subject is None else LandedChange(base=subject[1], candidate=subject[0]),
        findings=findings(history) if subject else "",
        reads=asked.reads,
        criteria=asked.criteria,
        candidates=candidates,
        spec=asked.spec,
        prose="\n\n".join(
            text for title in dict.fromkeys(("", asked.phase)) if (text := prose.get(title, ""))
        ),
        needs=tuple(
            NeededTask(name=need.name, summary=need.result, commit=commit) for need, commit in needs
        ),
        refusal="" if subject else refusal(history),
        review=None if subject else review,
        messages=tuple(PromptMessage(sender=word.sender, text=word.text) for word in messages),
        sent=tuple(
            SentTask(task=own.id, name=own.name, state=own.state.value, summary=own.result)
            for own in sent
        ),
        hop=None if hop is None else HandedOver(giver=hop.giver, note=hop.note, args=hop.args),
        woken=woken(history),
        left_off=None if interrupted is None else _left_off(task, interrupted, history),
        steps=() if subject else steps,
        tools=tools,
    )


def title(task: Task) -> str:
    given = task.request.title or task.text or task.name
    return first_sentence(given) or task.name


def refusal(history: Sequence[Event]) -> str:
    """Return the reason for the refusal of the last attempt's work; empty without a refusal."""
    for event in reversed(history):
        if event.kind in ("task_sent_back", "entrants_failed"):
            return str(event.data["reason"])
        if event.kind == "attempt_finished":
            return str(event.data["reason"]) if event.data["outcome"] in _TO_BLAME else ""
    return ""


def _left_off(task: Task, last: Attempt, history: Sequence[Event]) -> InterruptedWork:
    reasons = [
        str(event.data["reason"])
        for event in history
        if event.kind == "attempt_finished" and event.data["attempt"] == last.number
    ]
    return InterruptedWork(
        base=last.base if last.candidate else None,
        reason="".join(reasons[-1:]),
        last_words=task.result,
    )


def woken(history: Sequence[Event]) -> str:
    """Return why a task that slept or asked goes on; empty if its last attempt did neither."""
    for event in reversed(history):
        if event.kind == "task_woken":
            subject = event.data["subject"]
            if event.data["event"] == "trunk_moved":
                return "You slept, and trunk has moved: the workspace is on its new tip."
            return f"You slept, and task {subject} has ended."
        if event.kind == "attempt_finished":
            return _describe_wait(event.data["outcome"], str(event.data["reason"]))
    return ""


def _describe_wait(outcome: str, reason: str) -> str:
    if outcome == ASKED:  # a program without sessions does not know its question any more
        question = "\n".join(f"> {line}" for line in reason.splitlines())
        return f"You asked a person, whose answer is below:\n\n{question}"
    return "You slept, and the time you gave is over." if outcome == SLEPT else ""


def findings(history: Sequence[Event]) -> str:
    """Return the findings of the last review, for the judge."""
    for event in reversed(history):
        if event.kind == "attempt_finished":
            return str(event.data["reason"]) if event.data["outcome"] == "success" else ""
    return ""
