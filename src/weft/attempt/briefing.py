"""What an agent is told: its task, what came before, and why the last try was refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from weft.agents.prompt import Briefing, LandedChange, NeededTask, PromptMessage, SentTask
from weft.model import ErrorClass, Event, Grant, Message, Task
from weft.stages import LOOKING

_TO_BLAME: Final = frozenset(
    {
        ErrorClass.NO_CHANGE,
        ErrorClass.SCOPE,
        ErrorClass.TIMEOUT,
        ErrorClass.OTHER,
        *LOOKING,
    }
)


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
    tools: bool = False,
) -> Briefing:
    """`needs` are the tasks before this one, each with the commit it left; `subject` is the
    candidate it only looks at, and what that is made on; `sent` are tasks of its own."""
    asked = task.request
    return Briefing(
        task=task.name,
        title=title(task),
        text=task.text,
        plan=asked.plan,
        phase=asked.phase,
        stage=grant.stage or "",
        attempt=grant.attempt,
        files=() if subject else grant.files,
        tests=tests,
        change=None if subject is None else LandedChange(base=subject[1], candidate=subject[0]),
        findings=findings(history) if subject else "",
        reads=asked.reads,
        criteria=asked.criteria,
        spec=asked.spec,
        needs=tuple(
            NeededTask(name=one.name, summary=one.result, commit=commit) for one, commit in needs
        ),
        refusal="" if subject else refusal(history),
        messages=tuple(PromptMessage(sender=one.sender, text=one.text) for one in messages),
        sent=tuple(
            SentTask(task=one.id, name=one.name, state=one.state.value, summary=one.result)
            for one in sent
        ),
        tools=tools,
    )


def title(task: Task) -> str:
    """One line that names the task."""
    given = task.request.title or task.text or task.name
    return next((line.strip() for line in given.splitlines() if line.strip()), task.name)


def refusal(history: Sequence[Event]) -> str:
    """Why the last attempt's work was not taken; empty if there was none or it was not to blame."""
    for event in reversed(history):
        if event.kind == "task_sent_back":
            return str(event.data["reason"])
        if event.kind == "attempt_finished":
            return str(event.data["reason"]) if event.data["outcome"] in _TO_BLAME else ""
    return ""


def findings(history: Sequence[Event]) -> str:
    """What a reviewer said of the candidate at hand, for the judge."""
    for event in reversed(history):
        if event.kind == "attempt_finished":
            return str(event.data["reason"]) if event.data["outcome"] == "success" else ""
    return ""
