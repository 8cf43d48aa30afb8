"""The rights of a worker host: verbs for its own workers and its own fences, and no others.

The token of a host names the host. Its workers are called `<host>-…`; the leases of those workers
are its fences. It fetches the commits that those leases are about. A host may call every verb that
only reads, except those about tokens and other secrets. A verb that writes is refused unless it is
listed here; `host_outcome` examines the end of an attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from weft.attempt.home_transfer import list_start_commits
from weft.attempt.tool_token import ToolRights, describe_tool_rights
from weft.errors import Forbidden
from weft.model import Task, WorkerKind
from weft.operations.identity import Identity
from weft.operations.member_work import refuse_more_files
from weft.project.project import Project
from weft.project.site import parse_agent, read_agent
from weft.store import Store
from weft.store.check_orders import find_ordered_head, get_output_request
from weft.store.leases import get_lease, list_open
from weft.store.runs import get_settings
from weft.store.store import reads
from weft.store.tasks import get_task, list_attempts
from weft.store.tokens import CHECKS, refuse_revoked

Arguments = Mapping[str, Any]

_WORKERS: Final = frozenset({"workers.heartbeat", "workers.depart", "admission.admit"})
_FENCES: Final[Mapping[str, Callable[[Arguments], Iterable[int]]]] = {
    "leases.renew": lambda given: given["fences"],
    "attempt_reports.report_all": lambda given: [fence for fence, _ in given["reports"]],
    **dict.fromkeys(
        (
            "gate.doubt_set_up",
            "check_orders.decline_check",
            "check_orders.report_check",
            "leases.adopt",
            "leases.extend",
            "attempt_end.finish",
            "leases.fix_team_base",
            "leases.free_proved_dead",
            "attempt_reports.propose_step",
            "attempt_reports.refuse_step",
            "leases.release",
            "attempt_reports.report",
        ),
        lambda given: [given["fence"]],
    ),
}


_CHECKS: Final = frozenset({"check_orders.decline_check", "check_orders.report_check"})


def is_own(who: Identity, worker: str | None) -> bool:
    """Tell whether a worker belongs to the host of this identity."""
    return who.worker is not None and worker is not None and worker.startswith(f"{who.worker}-")


class FetchRights(Struct, frozen=True, kw_only=True):
    """The runs and commits that the open leases of a host are about."""

    runs: frozenset[str]
    commits: frozenset[str]


@reads
def read_fetch_rights(store: Store, who: Identity, *, now: float) -> FetchRights:
    """Return the runs and commits that a host may fetch now; raise if its token was revoked."""
    refuse_revoked(store, who.token, now=now)
    runs: set[str] = set()
    commits: set[str] = set()
    for lease in list_open(store):
        if not is_own(who, lease.worker):
            continue
        if lease.task is not None:
            task = get_task(store, lease.task)
            runs.update([task.run] if task.run else [])
            commits.update(list_start_commits(store, task))
        elif head := find_ordered_head(store, lease.fence):
            runs.add(lease.holder)
            commits.add(head)
    return FetchRights(runs=frozenset(runs), commits=frozenset(commits))


def require_right(store: Store, who: Identity, verb: str, given: Arguments, repo: str) -> None:
    """Raise `Forbidden` if a host may not call a verb with these arguments."""
    if verb == "workers.register":
        _require_registration(who, given, repo)
    elif verb == "workers.ask_to_leave":
        _require(given["host"] == who.worker and given["repo"] == repo, "another host")
    elif verb in _WORKERS:
        _require(is_own(who, given["worker"]), "another worker")
    elif verb == "check_orders.take_check":
        _require_checks(who)
        _require(is_own(who, given["worker"]), "another worker")
    elif verb == "tokens.create_token":
        _require(given["fence"] is not None, "the home of the repository")
        _require_fences(store, who, [given["fence"]])
    elif verb in _FENCES:
        if verb in _CHECKS:
            _require_checks(who)
        _require_fences(store, who, _FENCES[verb](given))
        if verb == "leases.adopt":
            _require(is_own(who, given["worker"]), "another worker")
    elif verb == "check_orders.answer_output_request":
        asked = get_output_request(store, given["id"]).host
        _require(asked == who.worker, "another host")
    elif verb == "messages.confirm_to_task":
        tasks = {lease.task for lease in list_open(store) if is_own(who, lease.worker)}
        _require(given["task"] in tasks, "a task of another worker")
    else:
        raise Forbidden(f"The token of a worker host may not call {verb}.")


def _require_registration(who: Identity, given: Arguments, repo: str) -> None:
    new = given["worker"]
    _require(is_own(who, new.id) and new.name == new.id, "another worker")
    _require(new.host == who.worker and new.kind is WorkerKind.PROCESS, "another host")
    _require(new.repos == (repo,), "another repository")
    _require(not given["stated"] and not new.gates, "the home of the repository")
    _require(set(new.host_limits) <= {"ram_mb", "port"}, "the limits of the store")
    if new.checks:
        _require_checks(who)
    _require(not any(agent.source for agent in new.agents or ()), "the limits of agents")


def _require_checks(who: Identity) -> None:
    """Raise `Forbidden` unless the host joined with the right to report checks."""
    if CHECKS not in who.scopes:
        raise Forbidden(
            "This host may not report checks; it joins anew with a token that allows them "
            "(weft token create NAME --join --checks)."
        )


def _require_fences(store: Store, who: Identity, fences: Iterable[int]) -> None:
    for fence in fences:
        _require(is_own(who, get_lease(store, fence).worker), "a lease of another worker")


def _require(own: bool, subject: str) -> None:
    if not own:
        raise Forbidden(f"The token of a worker host may not act for {subject}.")


def require_more_files(store: Store, fence: int, files: Sequence[str]) -> None:
    """Raise `Refused` if the task of a fence may not claim these files besides its own."""
    task = get_lease(store, fence).task
    if task is not None:
        refuse_more_files(get_task(store, task), files)


def require_tool_rights(store: Store, project: Project, given: Mapping[str, Any]) -> None:
    """Raise `Forbidden` if a host asks for a token with other rights than its attempt has.

    `given` has the arguments of `create_token`; its fence names the attempt.
    """
    lease = get_lease(store, given["fence"])
    if lease.task is None:
        raise Forbidden("Tools are for agents: this lease is no attempt of a task.")
    task = get_task(store, lease.task)
    stage = next(
        made.stage for made in list_attempts(store, task.id) if made.number == lease.attempt
    )
    asked = ToolRights(
        name=given["name"],
        scopes=frozenset(given["scopes"]),
        tenant=given["tenant"],
        agents=frozenset(given["agents"]),
    )
    if asked != describe_tool_rights(task, stage, _read_sends_to(store, project, task)):
        raise Forbidden("The token of an agent's tools has the rights of its attempt alone.")
    if given["expires"] is not None:
        raise Forbidden("The token of an agent's tools ends with its attempt.")


def _read_sends_to(store: Store, project: Project, task: Task) -> tuple[str, ...]:
    if task.agent is None:
        return ()
    if task.run is None:
        return read_agent(project.root, task.agent).sends_to
    return parse_agent(get_settings(store, task.run).agents[task.agent], task.agent).sends_to
