"""`weft agents test`: a trivial task in a temporary repository.

The trial has its own store, so it neither takes slots nor stops an agent for real work. The caller
runs it; this module prepares it and diagnoses its end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft import git
from weft.admission.capacity import attempt_demand
from weft.agents import prompt
from weft.agents.adapters import get_adapter
from weft.agents.agent import RECORDED, SCRIPTED, Agent
from weft.agents.prompt import Briefing
from weft.config import Config, SandboxSettings
from weft.git.trees import find_file
from weft.maintenance.examination import ask_weft
from weft.model import Attempt, ErrorClass, NewTask, State, TaskRequest
from weft.project.boxes import DEVCONTAINER
from weft.project.own_repository import get_repository
from weft.project.project import Project
from weft.project.site import AGENTS
from weft.store import Store, default_url
from weft.store.event_log import history
from weft.store.server_operations import hosted
from weft.store.tasks import get_task, list_attempts, submit

FILE: Final = "hello.txt"
SECONDS: Final = 300.0
"""Seconds for a trial: a program that waits for an answer never ends."""

WORD: Final = "hello"
WRONG_FILE: Final = "wrong_file"
"""The problem of an agent that ends well without the file it was asked for."""
_TEXT: Final = f"Create the file {FILE} in the current directory. It contains one word: {WORD}"
_SCRIPT: Final = f"script: write {FILE} {WORD}"


class Trial(Struct, frozen=True, kw_only=True):
    project: Project  # the temporary repository
    agent: Agent


class Diagnosis(Struct, frozen=True, kw_only=True):
    problem: str | None  # None: it works; otherwise the class of the failure
    text: str  # the fault and its cure, for people
    output: str = ""  # last words of the program itself
    seconds: float = 0.0
    tokens: int = 0
    micro_usd: int = 0


@contextmanager
def throw_away(project: Project, agent: Agent) -> Iterator[Trial]:
    """Make a repository for a trial, and delete it afterwards."""
    # The trial does not use the template, which may forbid its task; but the template must be
    # complete.
    prompt.write_prompt(agent, Briefing(task="trial", title=_TEXT, text=_TEXT, files=(FILE,)))
    with tempfile.TemporaryDirectory(prefix=f"weft-{agent.name}-") as name:
        root = Path(name).resolve() / "trial"
        git.create_repository(root)
        settings = (project.root / agent.file).read_text(encoding="utf-8-sig").splitlines()
        (root / AGENTS).mkdir(parents=True)
        (root / agent.file).write_text(
            "\n".join([*settings[: agent.template_line - 1], "{{ task.text }}", ""])
        )
        if agent.runs == RECORDED and (recordings := project.root / agent.recordings).is_dir():
            (root / agent.recordings).parent.mkdir(parents=True, exist_ok=True)
            if not (root / agent.recordings).exists():
                (root / agent.recordings).symlink_to(recordings)
        yield Trial(
            project=Project(
                root=root,
                config=Config(tuning=project.config.tuning, sandbox=_in_checkout(project)),
                # A person who interrupts a trial does not want to wait.
                environment={**project.environment, "SHUTDOWN_TIMEOUT": "0"},
                store_url=default_url(git.common_directory(root)),
            ),
            agent=agent,
        )


def _in_checkout(project: Project) -> SandboxSettings:
    """Return the settings of boxes; a devcontainer.json is that of the project itself."""
    settings = project.config.sandbox
    if not settings.image.endswith(DEVCONTAINER):
        return settings
    return replace(settings, image=str(project.root / settings.image))


class Tried(Struct, frozen=True, kw_only=True):
    diagnosis: Diagnosis
    resumed: bool  # it was stopped before, and can be started again


@hosted("write")
def try_agent(project: Project, name: str) -> Tried:
    """Try an agent in a separate weft process, for a caller on another machine."""
    unfinished = f"The trial of {name} was not finished."
    arguments = ["agents", "test", "--json", "--", name]
    answer = ask_weft(project, arguments, 2 * SECONDS, unfinished)
    return Tried(
        diagnosis=Diagnosis(
            problem=answer["problem"],
            text=answer["text"],
            output=answer["said"] or "",
            seconds=answer["seconds"],
            tokens=answer["tokens"],
            micro_usd=answer["micro_usd"],
        ),
        resumed=answer["resumed"],
    )


def hand_in(trial: Trial, store: Store, *, now: float) -> int:
    agent = trial.agent
    task = NewTask(
        name="trial",
        text=f"{_TEXT}\n\n{_SCRIPT}" if agent.runs == SCRIPTED else _TEXT,
        request=TaskRequest(title=_TEXT, timeout=min(agent.timeout or SECONDS, SECONDS)),
        files=(FILE,),
        demand=attempt_demand(run=None, stage=None, agent=agent.name, provider=agent.provider),
        agent=agent.name,
        stage=agent.stage or "implement",
    )
    return submit(store, task, repo=get_repository(trial.project.root, store), now=now)


def diagnose(trial: Trial, store: Store, task: int) -> Diagnosis:
    """Diagnose an agent from its only attempt."""
    [attempt] = list_attempts(store, task)
    reason = next(
        (
            event.data["reason"]
            for event in reversed(history(store, task))
            if "reason" in event.data
        ),
        "",
    )
    _, _, speech = reason.partition("It said: ")
    about = get_task(store, task)
    problem = None if about.state is State.DONE else str(attempt.outcome)
    if problem is None and not _wrote_file(trial, attempt):
        problem = WRONG_FILE
    works = problem is None
    program = get_adapter(trial.agent).FACTS.program or trial.agent.name
    text = "It works." if works else explain(trial.agent, program, str(problem), reason)
    return Diagnosis(
        problem=problem,
        text=text,
        output=speech or about.result,
        seconds=(attempt.ended or attempt.started) - attempt.started,
        tokens=attempt.tokens,
        micro_usd=attempt.micro_usd,
    )


def _wrote_file(trial: Trial, attempt: Attempt) -> bool:
    """Tell whether the attempt's commit has the file that the task asked for."""
    if attempt.candidate is None:
        return False
    text = find_file(trial.project.root, attempt.candidate, FILE)
    return text is not None and text.strip().strip(".\"'").lower() == WORD


_EXPLAINED: Final[Mapping[str, str]] = {
    WRONG_FILE: (
        "{program} works, but did not do what it was asked: " + FILE + " does not contain the one "
        "word it should. Look at the prompt and `model` in {file}, or try again."
    ),
    ErrorClass.AUTH: (
        "{program} is not logged in, or its account is not paid for. Start it once in a terminal "
        "and log in{keys}."
    ),
    ErrorClass.CONFIG: (
        "{program} cannot run as it is set up. Look at `runs`, `model` and `args` in {file}."
    ),
    ErrorClass.NO_CHANGE: (
        "{program} ended as if all were well, but did not write " + FILE + ": it may not do so "
        "without asking, and gets no answer. Look at `args`, `tools` and `sandbox` in "
        "{file}; a program of your own needs its switch for unattended use."
    ),
    ErrorClass.RATE_LIMIT: (
        "{program} is installed and logged in, but over its provider's rate limit. Try later."
    ),
    ErrorClass.OVERLOAD: (
        "{program} cannot reach its provider. Look at the network, or try later."
    ),
    ErrorClass.CAPACITY: "{program}'s model has no room just now. Try later.",
    ErrorClass.TIMEOUT: (
        "{program} did not end in time and was stopped. It may wait for an answer that it cannot "
        "give, or for a provider that does not answer."
    ),
    ErrorClass.CONTEXT: (
        "The first prompt does not fit into {program}'s model. Choose a model with a larger "
        "context with `model:` in {file}."
    ),
    ErrorClass.CRASH: "{program} crashed. Run it by hand to see whether it does so there, too.",
    ErrorClass.SCOPE: "{program} changed what it was not asked to change.",
    ErrorClass.STOPPED: "The trial was interrupted.",
}


def explain(agent: Agent, program: str, problem: str, reason: str) -> str:
    """Explain a failure and name its cure."""
    known = _EXPLAINED.get(problem)
    if known is None or agent.runs == RECORDED:  # it has no program that could be set up
        return reason or f"{program} failed."
    keys = [name for name in get_adapter(agent).FACTS.passes if name.endswith(("_KEY", "_TOKEN"))]
    hint = f", or set {' or '.join(keys)}, which weft passes on" if keys else ""
    return known.format(program=program, file=agent.file, keys=hint)
