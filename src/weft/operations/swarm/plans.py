"""A plan that comes as text, from a lead or over the network, as a run.

Commands that a plan brings along run at the gate, outside any agent's sandbox: only an admin's do.
"""

from __future__ import annotations

from msgspec import Struct

from weft.errors import Forbidden, InputError
from weft.operations.plans import Checked, History, Setting, Source, check, usual_slots
from weft.operations.project import Project
from weft.operations.submission import Sheet, Submitted, Wishes, submit
from weft.operations.swarm.identity import ADMIN, WORK, Identity, has, need
from weft.operations.swarm.sending import DEFAULT_TENANT
from weft.plan.records import Problem, Severity
from weft.store import Store


class PlanSent(Struct, frozen=True, kw_only=True):
    submitted: Submitted
    warnings: tuple[str, ...]


def submit_text(
    store: Store, who: Identity, project: Project, text: str, *, name: str, agent: str
) -> PlanSent:
    """`name` is a plain word: it becomes part of the run's."""
    need(who, WORK if who.fence is not None else ADMIN)
    around = Setting(
        slots=usual_slots(project.config), config=project.config, history=History(store)
    )
    source = Source(name=f"{name}.md", data=text.encode())
    checked = check(source, around)
    _refuse_unusable(checked, who)
    sheet = Sheet(source=source, stem=name, place=f"{who.subject}:{source.name}", spec="")
    wishes = Wishes(agent=agent, tenant=who.tenant or DEFAULT_TENANT)
    return PlanSent(
        submitted=submit(project, store, checked, sheet, wishes),
        warnings=tuple(_told(one) for one in checked.problems),
    )


def _refuse_unusable(checked: Checked, who: Identity) -> None:
    wrong = [_told(one) for one in checked.problems if one.severity is Severity.ERROR]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise InputError(f"The plan cannot be run: {wrong[0]}{more}")
    if not has(who, ADMIN) and any(task.check for task in checked.compiled.plan.tasks):
        raise Forbidden("Only an admin may submit a plan with commands of its own (`check:`).")


def _told(problem: Problem) -> str:
    return f"line {problem.line}: {problem.message}"
