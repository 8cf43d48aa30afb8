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
    describe_base,
    is_base_known,
    list_own_checks,
)
from weft.gate.check_run import CheckRun, Command, find_telling_line, read_running_check
from weft.gate.policy.gate_records import Purpose
from weft.git import Commit
from weft.model import ONE_TASK
from weft.process.process_identity import get_place
from weft.project.held_leases import HeldLeases
from weft.project.project import Project
from weft.project.site import Site, read_agent
from weft.runs.agent_readiness import require_agents
from weft.runs.preparation import USUAL_AGENT, PreparedRun
from weft.store import Store
from weft.store.gate import NO_RUN, record_base_pass
from weft.store.leases import take
from weft.worker.engine import open_site
from weft.worker.heartbeat import Presence
from weft.workspace import SetupFiles

log = logging.getLogger(__name__)

_ROOM = 0.5  # seconds between two tries to get the lease of a check

Watch = Callable[[float, str], bool]
"""Called before a check starts and each second of it, with its seconds and its last line of output;
returns False to stop the check."""


def watch_nothing(_seconds: float, _line: str) -> bool:
    return True


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
    project: Project, watch: Watch = watch_nothing, *, agent: str = USUAL_AGENT
) -> tuple[str, str]:
    """Check an agent and HEAD under the present `weft.toml`; return the fault of each with its
    cure, or "".

    `weft init` and `weft doctor --check` call it.
    """
    agent_fault = ""
    settings = RunSettings(gate=project.config.gate, workspace=project.config.workspace)
    with project.open_store() as store:
        try:
            require_agents(project, store, {agent: read_agent(project.root, agent)})
        except InputError as error:
            agent_fault = str(error)
        try:
            checked = preflight(project, store, BaseAsked(base="HEAD", settings=settings), watch)
        except git.NoSuchCommit:
            fault = "The repository has no commit yet; agents start from one. Commit first."
            return agent_fault, fault
    return agent_fault, checked.text


def require_base(
    project: Project, store: Store, asked: BaseAsked, watch: Watch = watch_nothing
) -> BaseChecked:
    """Check a base; raise an `InputError` with the cure if it is not in order."""
    checked = preflight(project, store, asked, watch)
    if checked.text:
        raise InputError(checked.text)
    return checked


def find_known_red(
    project: Project, store: Store, asked: BaseAsked, watch: Watch = watch_nothing
) -> tuple[str, ...]:
    """Check a base; return the names of the tests that fail there.

    Raise an `InputError` if another fault is found, or if the names cannot be read.
    """
    checked = preflight(project, store, asked, watch)
    if checked.result.fault is not BaseFault.RED:
        if checked.text:
            raise InputError(checked.text)
        return ()
    failed = checked.result.failed_tests
    if failed.fault:
        raise InputError(
            f"--allow-red cannot tell which tests fail: {failed.fault}.\n{checked.text}"
        )
    return tuple(sorted(failed.names))


def preflight(
    project: Project, store: Store, asked: BaseAsked, watch: Watch = watch_nothing
) -> BaseChecked:
    """Check a base, unless it is known to pass; call `watch` while its commands run."""
    config = project.config.with_run(asked.settings)
    commands = BaseCommands(gate=asked.settings.gate.run, own=asked.own)
    commit = git.get_commit(project.root, asked.base)
    files = SetupFiles(project.root, config.workspace)
    ids = base_ids(commands, config, project.environment, files.name())
    if is_base_known(store, commit.tree, ids):
        return BaseChecked(commit=commit.id, result=BaseResult(), known=True, text="")
    watch(0.0, "")
    with open_site(store, project.root, config, project.environment) as site:
        result = anyio.run(_check, site, commit, commands, ids, watch)
    text = describe_base(site, commit.id, asked.base, result)
    return BaseChecked(commit=commit.id, result=result, known=False, text=text)


async def _check(
    site: Site, commit: Commit, commands: BaseCommands, ids: BaseIds, watch: Watch
) -> BaseResult:
    presence = Presence(site, 1, get_place(), kind=ONE_TASK)
    leases = HeldLeases(site)
    await run_sync(presence.register)
    try:
        fence = await _take(site, presence)
        try:
            result = await _check_leased(leases, site, fence, commit, commands, watch)
            if result.fault is None:
                await run_sync(_record, site, fence, commit, commands, ids, result)
            return result
        finally:
            await leases.release(fence)
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
    leases: HeldLeases,
    site: Site,
    fence: int,
    commit: Commit,
    commands: BaseCommands,
    watch: Watch,
) -> BaseResult:
    check = CheckRun(site, fence, NO_RUN)
    started = time.monotonic()
    result: BaseResult | None = None
    lost = anyio.Event()
    async with anyio.create_task_group() as group:

        def lose() -> None:
            lost.set()
            group.cancel_scope.cancel()

        leases.hold(fence, renewed=check.renew, lost=lose)
        group.start_soon(leases.keep_renewed)
        group.start_soon(_show, check, watch, started, group.cancel_scope)
        result = await check_base(check, commit, commands)
        group.cancel_scope.cancel()
    if lost.is_set():
        raise StaleFence("The lease of the preflight check was lost; run the command again.")
    return result or BaseResult(
        fault=BaseFault.STOPPED, command=commands.gate, seconds=time.monotonic() - started
    )


async def _show(check: CheckRun, watch: Watch, started: float, scope: anyio.CancelScope) -> None:
    """Call a watch each second; cancel the check if it says so."""
    while True:
        await anyio.sleep(1)
        output = await run_sync(read_running_check, check.directory, check.site.store.redactor)
        if not watch(time.monotonic() - started, find_telling_line(output)):
            scope.cancel()


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
