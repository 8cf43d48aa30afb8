"""A plan that an admin sends as text over the network, to become a run.

A plan chooses agents, and its checks are commands that run outside any sandbox. So plans come only
from the repository or from an admin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from weft import plan
from weft.errors import Forbidden, InputError
from weft.git import NoSuchCommit
from weft.plan.plan_records import Problem, Severity
from weft.project.project import Project
from weft.runs.agent_readiness import require_agents
from weft.runs.plan_check import CheckedPlan, PlanSource, check, setting_of
from weft.runs.preparation import PlanUpload, RunOptions, prepare
from weft.runs.submission import Submitted, submit_prepared
from weft.store import Store
from weft.swarm.dispatch import DEFAULT_TENANT
from weft.swarm.identity import ADMIN, Identity, has

Format = Literal["plan.md", "prd.json", "beads"]
_SUFFIXES: Final[Mapping[Format, str]] = {"plan.md": "md", "prd.json": "json", "beads": "jsonl"}


class PlanSent(Struct, frozen=True, kw_only=True):
    submitted: Submitted
    warnings: tuple[str, ...]


class NewPlan(Struct, frozen=True, kw_only=True):
    """A plan as text, with the wishes of its sender."""

    text: str
    name: str = "plan"  # a plain word: it becomes part of the run's
    format: Format | None = None  # None: as its first line tells
    options: RunOptions = RunOptions()  # the tenant is the sender's


def submit_text(store: Store, who: Identity, project: Project, new: NewPlan) -> PlanSent:
    if not has(who, ADMIN):
        raise Forbidden(
            "Only an admin submits a plan: it chooses agents and brings commands (`check:`). "
            "Send its tasks one by one."
        )
    source = _source(new)
    checked = check(source, setting_of(project, store), new.options.slots)
    _refuse_unusable(checked)
    place = f"{who.subject}:{source.name}"
    upload = PlanUpload(source=source, stem=new.name, place=place, spec="")
    options = replace(new.options, tenant=who.tenant or DEFAULT_TENANT)
    try:
        prepared = prepare(project, checked, upload, options)
    except NoSuchCommit as error:  # which says where the repository is
        raise InputError(f"{options.base!r} is no commit of the repository.") from error
    if options.preflight:
        require_agents(project, store, prepared.agents)
    submitted = submit_prepared(project, store, prepared)
    return PlanSent(
        submitted=submitted, warnings=tuple(_describe(problem) for problem in checked.problems)
    )


def _source(new: NewPlan) -> PlanSource:
    data = new.text.encode()
    suffix = plan.suffix_for(data) if new.format is None else _SUFFIXES[new.format]
    return PlanSource(name=f"{new.name}.{suffix}", data=data)


def _refuse_unusable(checked: CheckedPlan) -> None:
    wrong = [
        _describe(problem) for problem in checked.problems if problem.severity is Severity.ERROR
    ]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise InputError(f"The plan cannot be run: {wrong[0]}{more}")


def _describe(problem: Problem) -> str:
    return f"line {problem.line}: {problem.message}"
