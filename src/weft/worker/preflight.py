"""Preflight: the check of a base before its run is submitted, in a process of its own.

The process registers as a worker for that time and holds a lease of a check, so after its death
any worker ends the check and frees its workspace. A pass is recorded and holds for every run from
the same tree with the same commands, environment and set-up files.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import anyio
from anyio.to_thread import run_sync
from msgspec import Struct

from weft import git
from weft.candidate_records import UNCHECKED, CheckVerdict
from weft.config import RunSettings
from weft.errors import InputError, StaleFence
from weft.gate.base_check import (
    BaseCommands,
    BaseFault,
    BaseIds,
    BaseResult,
    base_ids,
    check_base,
    is_base_known,
    list_own_checks,
)
from weft.gate.base_report import describe_base
from weft.gate.check_run import CheckRun, Command
from weft.gate.policy.gate_records import Purpose
from weft.git import Commit
from weft.model import ONE_TASK
from weft.process.process_identity import boottime, get_place
from weft.project.project import Project
from weft.project.site import Site, read_agent
from weft.runs.agent_readiness import require_agents
from weft.runs.preparation import USUAL_AGENT, PreparedRun
from weft.store import Store
from weft.store.gate import NO_RUN, record_base_pass
from weft.store.leases import release, renew, take
from weft.worker.engine import open_site
from weft.worker.heartbeat import Presence
from weft.workspace import SetupFiles

log = logging.getLogger(__name__)

_ROOM = 0.5  # seconds between two tries to get the lease of a check

Begin = Callable[[], None]
"""Called before a check starts that may take long."""


class BaseAsked(Struct, frozen=True, kw_only=True):
    """A base to check, under the settings of a run or of the checkout."""

    base: str  # a commit, or a name for it
    settings: RunSettings
    own: tuple[Command, ...] = ()  # checks of tasks


class BaseChecked(Struct, frozen=True, kw_only=True):
    commit: str
    result: BaseResult
    known: bool  # no command ran: an earlier verdict holds
    text: str  # the fault and its cure, for people; "" without a fault


def ask_about(prepared: PreparedRun) -> BaseAsked:
    """Return the base and the commands of a run that is to be submitted."""
    return BaseAsked(
        base=prepared.run.base,
        settings=prepared.settings,
        own=list_own_checks(prepared.tasks),
    )


def preflight_checkout(
    project: Project, begin: Begin = lambda: None, *, agent: str = USUAL_AGENT
) -> list[str]:
    """Check HEAD and an agent under the present `weft.toml`; return the faults with their cures.

    `weft init` and `weft doctor --check` call it.
    """
    faults = []
    settings = RunSettings(gate=project.config.gate, workspace=project.config.workspace)
    with project.open_store() as store:
        try:
            require_agents(project, store, {agent: read_agent(project.root, agent)})
        except InputError as error:
            faults.append(str(error))
        try:
            checked = preflight(project, store, BaseAsked(base="HEAD", settings=settings), begin)
        except git.NoSuchCommit:
            faults.append("The repository has no commit yet; agents start from one. Commit first.")
        else:
            faults += filter(None, [checked.text])
    return faults


def require_base(
    project: Project, store: Store, asked: BaseAsked, begin: Begin = lambda: None
) -> BaseChecked:
    """Check a base; raise an `InputError` with the cure if it is not in order."""
    checked = preflight(project, store, asked, begin)
    if checked.text:
        raise InputError(checked.text)
    return checked


def find_known_red(
    project: Project, store: Store, asked: BaseAsked, begin: Begin = lambda: None
) -> tuple[str, ...]:
    """Check a base; return the names of the tests that fail there.

    Raise an `InputError` if another fault is found, or if the names cannot be read.
    """
    checked = preflight(project, store, asked, begin)
    if checked.result.fault is not BaseFault.RED:
        if checked.text:
            raise InputError(checked.text)
        return ()
    failed = checked.result.failed_tests
    if failed.fault:
        raise InputError(
            f"--allow-red needs the names of the failed tests, and {failed.fault}. It works with "
            f"one run of pytest or unittest as the check.\n{checked.text}"
        )
    return tuple(sorted(failed.names))


def preflight(
    project: Project, store: Store, asked: BaseAsked, begin: Begin = lambda: None
) -> BaseChecked:
    """Check a base, unless it is known to pass; call `begin` before a command runs."""
    config = project.config.with_run(asked.settings)
    commands = BaseCommands(gate=asked.settings.gate.run, own=asked.own)
    commit = git.get_commit(project.root, asked.base)
    files = SetupFiles(project.root, config.workspace)
    ids = base_ids(commands, config, project.environment, files.name())
    if is_base_known(store, commit.tree, ids):
        return BaseChecked(commit=commit.id, result=BaseResult(), known=True, text="")
    begin()
    with open_site(store, project.root, config, project.environment) as site:
        result = anyio.run(_check, site, commit, commands, ids)
    text = describe_base(site, commit.id, asked.base, result)
    return BaseChecked(commit=commit.id, result=result, known=False, text=text)


async def _check(site: Site, commit: Commit, commands: BaseCommands, ids: BaseIds) -> BaseResult:
    presence = Presence(site, 1, get_place(), kind=ONE_TASK)
    await run_sync(presence.register)
    try:
        fence = await _take(site, presence)
        try:
            return await _check_leased(site, presence, fence, commit, commands, ids)
        finally:
            with anyio.CancelScope(shield=True):
                await run_sync(lambda: release(site.store, fence, now=time.time(), reason="ended"))
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(presence.depart)


async def _take(site: Site, presence: Presence) -> int:
    """Take the lease of a check as soon as the limit `requests` has room."""

    def take_now() -> int | None:
        demand = {"requests": 1}
        return take(site.store, "check", NO_RUN, demand, worker=presence.worker, now=time.time())

    waits = False
    while (fence := await run_sync(take_now)) is None:
        if not waits:
            waits = True
            log.warning("the check of the base waits for room in the limit requests")
        await anyio.sleep(_ROOM)
        await run_sync(presence.sign)
    return fence


async def _check_leased(
    site: Site,
    presence: Presence,
    fence: int,
    commit: Commit,
    commands: BaseCommands,
    ids: BaseIds,
) -> BaseResult:
    check = CheckRun(site, fence, NO_RUN)
    async with anyio.create_task_group() as group:
        group.start_soon(_keep_renewed, site, presence, fence, check)
        result = await check_base(check, commit, commands)
        group.cancel_scope.cancel()
    if result.fault is None:
        await run_sync(_record, site, fence, commit, commands, ids, result)
    return result


async def _keep_renewed(site: Site, presence: Presence, fence: int, check: CheckRun) -> None:
    while True:
        await anyio.sleep(site.config.tuning.heartbeat)
        sent = boottime()
        await run_sync(presence.sign)
        if await run_sync(lambda: renew(site.store, [fence], now=time.time())):
            raise StaleFence("The lease of the preflight check was lost; run the command again.")
        check.renew(sent)


def _record(
    site: Site,
    fence: int,
    commit: Commit,
    commands: BaseCommands,
    ids: BaseIds,
    result: BaseResult,
) -> None:
    files = SetupFiles(site.root, site.config.workspace).name()
    if base_ids(commands, site.config, site.environment, files) != ids:
        return  # the set-up files changed meanwhile: the check may have seen the old ones
    gate = (commands.gate,) if commands.gate else ()
    for check_id, lines in ((ids.gate, gate), (ids.own, commands.own)):
        if check_id != UNCHECKED:
            verdict = CheckVerdict(
                base=commit.id,
                combination=(),
                purpose=Purpose.BASE,
                tree=commit.tree,
                check_id=check_id,
                commands=lines,
                passed=True,
                seconds=result.seconds,
            )
            record_base_pass(site.store, fence, verdict, result.output, now=time.time())
