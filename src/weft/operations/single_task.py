"""`weft do`: a task that is handed in without a plan, to an agent or to a team."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from weft import git, paths
from weft.admission.capacity import attempt_demand
from weft.agents.agent import Agent
from weft.attempt.start import AD_HOC
from weft.errors import InputError
from weft.formats import first_sentence
from weft.model import LEAD, Class, NewTask, PredictedFile, TaskRequest
from weft.operations.submission import submit_upload
from weft.plan.plan_records import Source, list_claims
from weft.project.agent_list import explain_stopped, get_agent
from weft.project.agent_programs import explain_missing, find_program
from weft.project.own_repository import get_repository
from weft.project.project import Project
from weft.project.site import read_chain
from weft.runs.agent_readiness import require_offered
from weft.runs.file_prediction import open_predictor, predict_text
from weft.runs.plan_check import PlanSource
from weft.runs.preparation import PlanUpload, RunOptions
from weft.store import Store
from weft.store.limit_table import list_stopped, require_agreement
from weft.store.server_operations import hosted
from weft.store.tasks import get_task, list_attempts, submit
from weft.teams.team_text import parse_team
from weft.workspace import branch_ref
from weft.workspace.filters import refuse_filters

EVERYTHING: Final = "**"
NOTHING: Final = "none"

_LONGEST_NAME: Final = 32


class SingleTask(Struct, frozen=True, kw_only=True):
    """A task as a person asked for it, checked."""

    text: str
    files: tuple[str, ...] | None  # claims; None: not named
    agent: Agent
    stage: str
    request: TaskRequest


def check(
    project: Project,
    text: str,
    *,
    files: Sequence[str],
    agent: str,
    keep_outside: bool = False,
    needs_labels: tuple[str, ...] = (),
) -> SingleTask:
    """Check a task before it is stored; raise InputError if it could only fail."""
    if not text.strip():
        raise InputError('Say what is to be done: weft do "fix the typo in README.md".')
    require_commit(project)
    about = get_agent(project, agent)
    claims = () if about.stage == LEAD and not files else _claims(files)
    require_offered(project, about)
    read_chain(project.root, about.name)  # it refuses a hand-over to an agent without a file
    return SingleTask(
        text=text,
        files=claims,
        agent=about,
        stage=about.stage or "implement",
        request=TaskRequest(confined=bool(files) and not keep_outside, needs_labels=needs_labels),
    )


def require_commit(project: Project) -> None:
    """Raise InputError if the repository has no commit that an agent could start from."""
    if not git.has_commits(project.root):
        raise InputError(
            "The repository has no commit yet, so an agent has nothing to start from; make one: "
            'git commit --allow-empty -m "First".'
        )


def require_program(project: Project, agent: Agent) -> None:
    """Raise InputError if the program of an agent is not installed."""
    program = find_program(agent, project.root, project.environment)
    if program.path is None:
        raise InputError(explain_missing(agent, program))


@hosted("write")
def submit_text(
    project: Project,
    text: str,
    *,
    files: Sequence[str],
    agent: str,
    keep_outside: bool = False,
    needs_labels: tuple[str, ...] = (),
) -> int:
    """Check a task and submit it; return its number."""
    request = check(
        project,
        text,
        files=files,
        agent=agent,
        keep_outside=keep_outside,
        needs_labels=needs_labels,
    )
    with project.open_store() as store:
        return submit_task(project, store, request)


def submit_task(project: Project, store: Store, request: SingleTask) -> int:
    """Submit a task; return its number.

    Without files it claims the files that are predicted, or else the whole repository.
    """
    agent = request.agent
    require_agreement(store, project.config.stated)
    refuse_filters(project.root)
    stopped = list_stopped(store, now=time.time()).get(agent.name)
    if stopped is not None:
        raise InputError(explain_stopped(agent.name, stopped))
    predicted = _predict(project, store, request.text) if request.files is None else ()
    claims = list_claims(predicted) or (EVERYTHING,)
    task = NewTask(
        name=choose_name(request.text),
        text=request.text,
        request=replace(request.request, predicted=predicted),
        files=claims if request.files is None else request.files,
        demand=attempt_demand(
            run=None,
            stage=None,
            agent=agent.name,
            provider=agent.provider,
            labels=(*request.request.needs_labels, *agent.needs_labels),
        ),
        klass=Class.INTERACTIVE,
        agent=agent.name,
        stage=request.stage,
    )
    return submit(store, task, repo=get_repository(project.root, store), now=time.time())


def _predict(project: Project, store: Store, text: str) -> tuple[PredictedFile, ...]:
    if not project.config.plan.predict:
        return ()
    predictor = open_predictor(project.root, store, get_repository(project.root, store))
    return () if predictor is None else predict_text(predictor, text, project.config.worker_slots)


def choose_name(text: str) -> str:
    """Make a readable name that no task ever had.

    Task numbers start anew with each store, and branches outlive stores.
    """
    name = ""
    for word in re.findall(r"[a-z0-9]+", text.strip().splitlines()[0].lower()):
        if len(name) + len(word) > _LONGEST_NAME:
            break
        name += f"{word}-"
    return f"{name or 'task-'}{secrets.token_hex(3)}"


def summary(store: Store, task: int) -> dict[str, Any]:
    """Return the state and results of a task."""
    about = get_task(store, task)
    attempts = list_attempts(store, task)
    last = attempts[-1] if attempts else None
    branch = branch_ref(AD_HOC, about.name, last.number) if last and last.candidate else None
    return {
        "task": task,
        "name": about.name,
        "state": about.state.value,
        "reason": about.reason,
        "agent": about.agent,
        "attempts": len(attempts),
        "seconds": round(
            sum((attempt.ended or time.time()) - attempt.started for attempt in attempts), 3
        ),
        "tokens": sum(attempt.tokens for attempt in attempts),
        "micro_usd": sum(attempt.micro_usd for attempt in attempts),
        "commit": last.candidate if last else None,
        "base": last.base if last else None,
        "branch": branch.removeprefix("refs/heads/") if branch else None,
        "result": about.result,
    }


def _claims(files: Sequence[str]) -> tuple[str, ...] | None:
    if list(files) == [NOTHING]:
        return ()
    if NOTHING in files:
        raise InputError("`--files none` means that the task changes no file; give it alone.")
    return tuple(paths.normalise(file) for file in files) or None


def submit_team_task(
    project: Project,
    text: str,
    team: str,
    *,
    files: Sequence[str],
    agent: str,
    needs_labels: Sequence[str] = (),
) -> str:
    """Submit a run with a single task and its team; return the run."""
    if not text.strip():
        raise InputError('Say what is to be done: weft do "fix the typo" --team hedge.')
    if NOTHING in files:
        raise InputError("A team changes files, so that a candidate can be chosen; name them.")
    try:
        parse_team(team)
    except ValueError as wrong:
        raise InputError(f"--team {team!r} is not {wrong}.") from None
    story: dict[str, object] = {
        "id": "do",
        "title": first_sentence(text),
        "description": text,
        "team": team,
        "needs_labels": list(needs_labels),
    }
    if files:
        story["files"] = list(files)
    document = {"title": first_sentence(text), "stories": [story]}
    source = PlanSource(name="do", data=json.dumps(document).encode(), format=Source.PRD)
    upload = PlanUpload(source=source, stem="do", place="", spec="")
    options = RunOptions(agent=agent, format=Source.PRD)
    submitted, _ = submit_upload(project, upload, options)
    return submitted.run
