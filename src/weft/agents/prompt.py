"""The prompt of an attempt.

The agent file's template comes first. Variables that it does not mention are added behind it under
fixed headings, so that no template can forget the files, the reasons or the rules. Text by other
authors (specification, summaries, refusals, findings) is fenced or quoted: an agent should see
where weft stops talking.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct

from weft.agents import template
from weft.agents.agent import Agent
from weft.agents.comment_answers import write_comments
from weft.agents.comparison_prompt import write_comparison
from weft.agents.next_agents import NextAgent, write_args, write_steps
from weft.candidate_records import ReviewRound
from weft.model import LEAD, PLAN, ArgValue

_LONGEST_REPORT: Final = 16_000
_LONGEST_SUMMARY: Final = 2_000
_LONGEST_DIFF: Final = 60_000
_NO_TOOLS: Final = (
    "weft serves none here, so you cannot hand out work: say so, and that `weft serve` would."
)


class NeededTask(Struct, frozen=True, kw_only=True):
    """The result of an earlier task."""

    name: str
    summary: str = ""
    commit: str = ""


class LandedChange(Struct, frozen=True, kw_only=True):
    """A candidate to look at."""

    base: str
    candidate: str

    def __str__(self) -> str:
        return f"`git diff {self.base} {self.candidate}`"


class PromptMessage(Struct, frozen=True, kw_only=True):
    """A message to a task."""

    sender: str
    text: str


class SentTask(Struct, frozen=True, kw_only=True):
    """A task that this task has sent, and its state."""

    task: int
    name: str
    state: str
    summary: str = ""


class HandedOver(Struct, frozen=True, kw_only=True):
    """The hand-over by which an agent got its task."""

    giver: str
    note: str
    args: Mapping[str, ArgValue]


class InterruptedWork(Struct, frozen=True, kw_only=True):
    """Work of an earlier attempt, whose session cannot be continued."""

    base: str | None  # the commit that the work is compared with; None: there is no work
    reason: str  # why that attempt ended
    last_words: str


class Briefing(Struct, frozen=True, kw_only=True):
    """All facts about a task that an agent may see."""

    task: str  # its id in the plan
    title: str
    text: str  # all of it, sub-bullets included
    plan: str = ""
    phase: str = ""
    stage: str = ""
    attempt: int = 1
    files: tuple[str, ...] = ()  # files it may change; empty: none
    predicted: bool = False  # weft predicted these files, and it may change further files
    reads: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()  # test files it may not edit
    criteria: tuple[str, ...] = ()
    prose: str = ""  # of the plan and the phase
    spec: str = ""
    needs: tuple[NeededTask, ...] = ()
    refusal: str = ""  # why the last attempt was refused
    review: ReviewRound | None = None  # a person's comments on the last candidate
    change: LandedChange | None = None  # to review or judge
    findings: str = ""  # of checks and reviewers
    messages: tuple[PromptMessage, ...] = ()
    sent: tuple[SentTask, ...] = ()
    hop: HandedOver | None = None
    woken: str = ""  # why a task that slept or asked goes on
    left_off: InterruptedWork | None = None
    steps: tuple[NextAgent, ...] = ()  # agents it may hand over to
    tools: bool = False  # whether it can call weft's own
    candidates: tuple[str, ...] = ()  # diffs to compare; the template of the agent is not used


T = TypeVar("T")


class PrintedOutput(tuple[T, ...]):
    """A list that a template can go through, or print as it is."""

    text: str

    @classmethod
    def of(cls, items: Iterable[T], text: str) -> PrintedOutput[T]:
        made = cls(items)
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text


def write_prompt(agent: Agent, briefing: Briefing) -> str:
    if briefing.candidates:
        diffs = [write_fenced(diff, _LONGEST_DIFF) for diff in briefing.candidates]
        return _clean(write_comparison(_task(briefing), _bullets(briefing.criteria), diffs))
    written = template.render(
        agent.template, variables(agent, briefing), agent.file, agent.template_line
    ).strip()
    mentioned = template.list_mentioned(agent.template)
    added = [
        f"## {heading}\n\n{text}"
        for heading, covers, write in _SECTIONS
        if not covers & mentioned and (text := write(briefing))
    ]
    return _clean("\n\n".join([written, *added] if written else added) + "\n")


def variables(agent: Agent, briefing: Briefing) -> dict[str, Any]:
    """Return the values of a template's variables, which `template.VARIABLES` explains."""
    return {
        "task": {
            "name": briefing.task,
            "title": briefing.title,
            "text": briefing.text or briefing.title,
            "files": _inline(briefing.files),
            "reads": _inline(briefing.reads),
        },
        "plan": briefing.plan,
        "phase": briefing.phase,
        "stage": briefing.stage,
        "attempt": briefing.attempt,
        "criteria": PrintedOutput.of(briefing.criteria, _bullets(briefing.criteria)),
        "prose": briefing.prose,
        "spec": briefing.spec,
        "needs": PrintedOutput.of(briefing.needs, _needs(briefing)),
        "tests": _inline(briefing.tests),
        "refusal": _cut(briefing.refusal, _LONGEST_REPORT),
        "review": _review(briefing),
        "change": briefing.change or "",
        "findings": _cut(briefing.findings, _LONGEST_REPORT),
        "messages": PrintedOutput.of(briefing.messages, _messages(briefing)),
        "sent": PrintedOutput.of(briefing.sent, _sent(briefing)),
        "note": briefing.hop.note if briefing.hop else "",
        "args": {**dict.fromkeys(agent.takes, ""), **_args(briefing)},
        "steps": write_steps(briefing.steps, tools=briefing.tools),
        "tools": write_tools(briefing),
        "rules": write_rules(briefing),
    }


def environment(briefing: Briefing) -> dict[str, str]:
    """Return the variables in the environment of every agent, for scripts and hooks."""
    return {
        "WEFT_TASK": _clean(briefing.task),
        "WEFT_STAGE": _clean(briefing.stage),
        "WEFT_ATTEMPT": str(briefing.attempt),
        "WEFT_FILES": _clean("\n".join(briefing.files)),
    }


def write_rules(briefing: Briefing) -> str:
    if briefing.stage == PLAN and not briefing.files:
        return _bullets(
            [
                "Change no file. Your last message is the plan, whole and alone.",
                "You get no answers while you work: decide, and write the decision down.",
            ]
        )
    if briefing.files and briefing.predicted:
        scope = "The files you own are a prediction. Change more files only if the task needs it."
    elif briefing.files:
        scope = "Change only the files you own. If the task needs another file, say so and stop."
    else:
        scope = "Change no file. Your last message is the result."
    return _bullets(
        [
            scope,
            "Work in this directory only; commit locally or not at all.",
            "Never push, and never touch other branches, worktrees, stashes or git's settings.",
            "You get no answers while you work: decide, and say what you decided.",
            "End with a short summary of what you did.",
        ]
    )


def write_tools(briefing: Briefing) -> str:
    """Return the introduction to weft's own tools; each tool describes its own use."""
    if not briefing.tools:
        return _NO_TOOLS if briefing.stage == LEAD else ""
    lines = [
        "`store_progress` tells how far you are; `poll_task` brings messages while you work.",
        "`claim_files` asks for a file you do not own, before you change it. If it is not granted, "
        "say so and stop.",
        "`report_work` proposes work that you came across and that is not part of your task.",
    ]
    if briefing.stage == LEAD:
        lines = [
            "`send_task` hands work to others; `get_swarm` says who is there.",
            "`poll_task` waits until something you sent has ended or a message comes; give "
            "it the `ack` of the answer before. `get_tasks` and `why` say how the rest is doing.",
            *lines,
        ]
    return f"They are there over MCP, as the server `weft`:\n\n{_bullets(lines)}"


def _clean(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _cut(text: str, most: int) -> str:
    """Shorten a report; keep its beginning and its end, where the reasons are."""
    if len(text) <= most:
        return text
    left_out = f"\n[… {len(text) - most} characters left out …]\n"
    return text[: most // 3] + left_out + text[-2 * most // 3 :]


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _inline(paths: Sequence[str]) -> PrintedOutput[str]:
    return PrintedOutput.of(paths, ", ".join(f"`{path}`" for path in paths))


def _paths(items: Iterable[str]) -> str:
    return _bullets(f"`{path}`" for path in items)


def write_fenced(text: str, most: int = _LONGEST_REPORT) -> str:
    text = _cut(text.strip("\n"), most)
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}" if text.strip() else ""


def _quoted(text: str) -> str:
    return "\n".join(f"  > {line}" for line in text.splitlines())


def _task(briefing: Briefing) -> str:
    text = briefing.text.strip()
    return (
        text
        if briefing.title.rstrip("…") in " ".join(text.split())
        else f"{briefing.title}\n\n{text}".strip()
    )


def _place(briefing: Briefing) -> str:
    parts = {
        "Plan": briefing.plan,
        "Phase": briefing.phase,
        "Task": briefing.task,
        "Stage": briefing.stage,
    }
    return _bullets(f"{what}: {value}" for what, value in parts.items() if value)


def _needs(briefing: Briefing) -> str:
    parts = []
    for need in briefing.needs:
        commit = f" (commit {need.commit})" if need.commit else ""
        summary = _quoted(_cut(need.summary.strip(), _LONGEST_SUMMARY))
        parts.append(f"- {need.name}{commit}" + (f"\n{summary}" if summary else ""))
    return "\n".join(parts)


def _refusal(briefing: Briefing) -> str:
    if not briefing.refusal.strip():
        return ""
    return f"This is attempt {briefing.attempt}.\n\n{write_fenced(briefing.refusal)}"


def _review(briefing: Briefing) -> str:
    if briefing.review is None:
        return ""
    return write_comments(briefing.review.round, briefing.review.comments, tools=briefing.tools)


def _messages(briefing: Briefing) -> str:
    parts = []
    for message in briefing.messages:
        text = _quoted(_cut(message.text.strip(), _LONGEST_SUMMARY))
        parts.append(f"- From {' '.join(message.sender.split())}:\n{text}")
    return "\n".join(parts)


def _sent(briefing: Briefing) -> str:
    parts = []
    for task in briefing.sent:
        summary = _quoted(_cut(task.summary.strip(), _LONGEST_SUMMARY))
        line = f"- Task {task.task} ({task.name}) is {task.state}."
        parts.append(line + (f"\n{summary}" if summary else ""))
    return "\n".join(parts)


def _args(briefing: Briefing) -> dict[str, str]:
    return write_args(briefing.hop.args) if briefing.hop else {}


def _handed_over(briefing: Briefing) -> str:
    if briefing.hop is None:
        return ""
    note = _quoted(_cut(briefing.hop.note.strip(), _LONGEST_REPORT))
    args = _bullets(f"{name}: {text}" for name, text in _args(briefing).items())
    lines = [f"By the agent {briefing.hop.giver}. The workspace holds the work so far.", note, args]
    return "\n\n".join(line for line in lines if line)


def _left_off(briefing: Briefing) -> str:
    work = briefing.left_off
    if work is None:
        return ""
    lines = ["An earlier attempt at this task ended early, and its conversation is not here."]
    if work.base is not None:
        lines[0] += (
            f" Its work is in the workspace; `git diff {work.base}` shows it. Go on from it."
        )
    for heading, text in (("It ended with", work.reason), ("Its last words", work.last_words)):
        if text.strip():
            lines.append(f"{heading}:\n\n{_quoted(_cut(text.strip(), _LONGEST_SUMMARY))}")
    return "\n\n".join(lines)


def _change(briefing: Briefing) -> str:
    return f"{briefing.change} shows it." if briefing.change else ""


Section = tuple[str, frozenset[str], Callable[[Briefing], str]]

_SECTIONS: Final[tuple[Section, ...]] = (
    ("Where this belongs", frozenset({"plan", "phase", "task.name"}), _place),
    ("About the plan", frozenset({"prose"}), lambda b: write_fenced(b.prose)),
    ("Your task", frozenset({"task.text"}), _task),
    ("The change to look at", frozenset({"change"}), _change),
    ("Files you own", frozenset({"task.files"}), lambda b: _paths(b.files)),
    ("Files to read", frozenset({"task.reads"}), lambda b: _paths(b.reads)),
    ("Test files you may not edit", frozenset({"tests"}), lambda b: _paths(b.tests)),
    ("Acceptance criteria", frozenset({"criteria"}), lambda b: _bullets(b.criteria)),
    ("From the specification", frozenset({"spec"}), lambda b: write_fenced(b.spec)),
    ("What the tasks before this one did", frozenset({"needs"}), _needs),
    ("What was found", frozenset({"findings"}), lambda b: write_fenced(b.findings)),
    ("Why the last attempt was refused", frozenset({"refusal"}), _refusal),
    ("Handed over to you", frozenset({"note", "args"}), _handed_over),
    ("Where the last attempt stopped", frozenset(), _left_off),
    ("Why you go on", frozenset(), lambda b: b.woken),
    ("Comments on your work", frozenset({"review"}), _review),
    ("Tasks you have sent", frozenset({"sent"}), _sent),
    ("Messages for you", frozenset({"messages"}), _messages),
    ("weft's own tools", frozenset({"tools"}), write_tools),
    ("Your next step", frozenset({"steps"}), lambda b: write_steps(b.steps, tools=b.tools)),
    ("Rules", frozenset({"rules"}), write_rules),
)
"""Heading, the variables that make it unnecessary, and its text; empty sections are left out."""
