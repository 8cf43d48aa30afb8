"""The text of a pull request: tasks, checks, reviewers' verdicts, cost and the proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from weft import stages
from weft.config import command_line
from weft.formats import count, dollars, duration, first_line, first_sentence
from weft.gate.proof import Proof, state_proof
from weft.model import Attempt, State, Task
from weft.runs.progress import RunProgress

_MOST: Final = 60_000  # bytes; GitHub takes 65,536 characters, an argument on Linux 128 KiB


def make_title(progress: RunProgress) -> str:
    """Return the title of the only task, or of the plan, or the name of the run."""
    done = [task for task in progress.work if task.state is State.DONE]
    if len(done) == 1:
        return _title(done[0])
    plans = [task.request.plan for task in progress.work if task.request.plan]
    return first_line(plans[0]) if plans else f"Run {progress.run.id}"


def make_body(progress: RunProgress, proof: Proof) -> str:
    parts = [
        "## Tasks",
        *_tasks(progress),
        "",
        "## Checks",
        *_checks(progress, proof),
        *_reviews(progress),
        "",
        "## Cost",
        _cost(progress.attempts),
        "",
        f"{'✓' if proof.holds else '✗'} `weft verify`: {state_proof(proof)}",
        *(f"- ✗ {problem}" for problem in proof.problems),
    ]
    text = "\n".join(parts) + "\n"
    if len(text.encode(errors="replace")) <= _MOST:
        return text
    kept = text.encode(errors="replace")[:_MOST].decode(errors="ignore")
    return kept[: kept.rfind("\n")] + "\n…\n"


def _tasks(progress: RunProgress) -> Iterator[str]:
    landed = progress.landed
    for task in progress.work:
        mark = "x" if task.state is State.DONE else " "
        commit = f" ({landed[task.id][:12]})" if task.id in landed else ""
        state = "" if task.state is State.DONE else f": {task.state}"
        yield f"- [{mark}] {task.name} {_title(task)}{commit}{state}"


def _checks(progress: RunProgress, proof: Proof) -> list[str]:
    commands = [f"`{command_line(command)}`" for command in proof.checks if command]
    own = [f"`{task.request.check}`" for task in progress.work if task.request.check]
    checks = list(dict.fromkeys([*commands, *own]))
    if not checks:
        return ["No check is configured; nothing was checked."]
    ran = sum(verdict.checked and verdict.seconds > 0 for verdict in progress.gate.verdicts)
    return [f"- {check}" for check in checks] + ["", f"{count(ran, 'check')} ran."]


def _reviews(progress: RunProgress) -> list[str]:
    names = {task.id: task.name for task in progress.tasks}
    verdicts = [
        f"- {names.get(attempt.task, attempt.task)}: {attempt.stage} by {attempt.agent}: "
        f"{'accepted' if attempt.outcome == 'success' else 'sent back'}"
        for attempt in progress.attempts
        if stages.looks(attempt.stage) and attempt.outcome is not None
    ]
    return ["", "## Reviews", *verdicts] if verdicts else []


def _cost(attempts: Sequence[Attempt]) -> str:
    tokens = sum(attempt.tokens for attempt in attempts)
    spent = dollars(sum(attempt.micro_usd for attempt in attempts))
    seconds = sum((attempt.ended or attempt.started) - attempt.started for attempt in attempts)
    work = f"{count(len(attempts), 'attempt')}, {duration(seconds)} of agents' time"
    return f"{spent}, {tokens:,} tokens, {work}."


def _title(task: Task) -> str:
    return first_sentence(task.request.title or task.text or task.name)
