"""Start of an attempt: a grant becomes a workspace, a prompt, a box and a running agent.

A failure here happens before the agent exists; the caller decides the next state of the task.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft import git, workspace
from weft.admission.capacity import is_consumable
from weft.agents import prompt
from weft.agents.adapters import ADAPTERS, get_adapter
from weft.agents.adapters.adapter import Adapter, Launch, Mcp, Start, environment
from weft.agents.agent import Agent, AgentBudget
from weft.agents.events import TokenCount
from weft.agents.next_agents import NextAgent, describe_next
from weft.agents.usage import Spent
from weft.attempt import settings_directory, start_record
from weft.attempt.base import Beginning, choose, find_hop
from weft.attempt.briefing import brief, title
from weft.attempt.home_transfer import fetch_for
from weft.attempt.proposed_step import chain_budget, find_starter, spent_by
from weft.attempt.recordings import PROMPT, apply_patch, find_played, make_tape
from weft.attempt.start_record import Order
from weft.attempt.tool_token import describe_tool_rights
from weft.config import BoxKind
from weft.errors import InputError, StaleFence, StoreError, WeftError
from weft.formats import first_sentence
from weft.git import gc_lock
from weft.git.trees import make_patch
from weft.model import LEAD, PLAN, Attempt, Grant, Hop, Lease, Message, Task
from weft.process import agent_process as process
from weft.process import process_table
from weft.process.agent_process import Running, Spawn
from weft.process.death_proof import find_strays, is_proved_dead
from weft.process.environment import build_environment
from weft.project.boxes import enter_agent_box
from weft.project.site import Site
from weft.store.attempt_end import list_hops
from weft.store.event_log import history
from weft.store.messages import confirm_to_task, list_sent, list_to_task
from weft.store.reviews import find_round
from weft.store.tasks import get_task, list_attempts, list_needs
from weft.store.tokens import create_token
from weft.workspace import Workspace
from weft.workspace.quarantine import make_quarantine

log = logging.getLogger(__name__)

_LONGEST_WORD: Final = 2_000  # characters of an argument in a record

AD_HOC: Final = "do"
"""The run's part of the branch name of a task without a run."""


class Begun(Struct, frozen=True, kw_only=True):
    order: Order
    workspace: Workspace
    running: Running
    warnings: tuple[str, ...] = ()


class StillRuns(WeftError):
    """An agent that could not be started properly could not be ended either."""


def begin(site: Site, grant: Grant, *, renewed: Callable[[], float]) -> Begun:
    """Start the agent of a grant; `renewed` returns the time of the last renewal of its lease.

    After an exception no process of the attempt runs or will run, except after `StillRuns`.
    """
    directory = site.directory(grant.task, grant.attempt)
    try:
        directory.mkdir(parents=True, mode=0o700)
    except FileExistsError:
        raise StaleFence(f"Attempt {grant.attempt} of task {grant.task} was given up.") from None
    task = get_task(site.store, grant.task)
    assert task.agent is not None, "a task without an agent is done by a person"
    agent = site.read_agent(task.agent)
    site.learn_secrets(agent)
    gc_lock.guard(site.common)
    fetch_for(site, task)
    beginning = choose(site, task, grant)
    branch = workspace.branch_ref(grant.run or AD_HOC, task.name, grant.attempt)
    marker = site.marker(grant.task, grant.attempt)
    made = workspace.prepare(
        site.root,
        branch,
        beginning.start,
        owner=marker,
        terms=site.terms(),
        claims=grant.files,
        preferred=None if beginning.resumed is None else _find_workspace(site, beginning.resumed),
    )
    prepared = on_base(site, made, beginning.base)
    try:
        return _fill(site, grant, task, agent, prepared, beginning, renewed=renewed)
    except BaseException:
        _undo(directory, marker, prepared)
        raise


def find(site: Site, lease: Lease) -> Begun:
    """Find an attempt that another process began and released; raise if it is not free yet."""
    assert lease.task is not None
    assert lease.attempt is not None
    directory = site.directory(lease.task, lease.attempt)
    ordered = start_record.find(directory)
    if ordered is None:
        raise WeftError(f"Attempt {lease.attempt} of task {lease.task} was never started here.")
    site = site.for_run(ordered.run)
    with suppress(InputError):  # without its agent file, secrets are known by their names only
        site.learn_secrets(site.read_agent(ordered.agent))
    prepared = workspace.attach(site.root, ordered.branch, terms=site.terms())
    try:
        running = process.attach(directory)
        rebased = on_base(site, prepared, ordered.base)
        return Begun(order=ordered, workspace=rebased, running=running)
    except BaseException:
        prepared.close()
        raise


def end_all(directory: Path, marker: str, seconds: float = 10.0) -> None:
    """End all processes of an attempt, its set-up included, and prevent further starts."""
    end = time.monotonic() + seconds
    while not is_proved_dead(directory, marker):
        for stray in find_strays(directory, marker):
            process_table.send_signal(stray, signal.SIGKILL)
        if time.monotonic() > end:
            raise StillRuns(f"The processes started in {directory} do not end.")
        time.sleep(0.02)


def _undo(directory: Path, marker: str, prepared: Workspace) -> None:
    """Remove all traces of an attempt that could not start."""
    try:
        end_all(directory, marker)
    except (StillRuns, OSError) as error:  # a full disk keeps the proof from being written
        prepared.close()  # the reaper frees it with the proof of death
        raise StillRuns(f"weft cannot tell whether the attempt still runs: {error}") from error
    _release(prepared)


def _release(prepared: Workspace) -> None:
    try:
        workspace.release(prepared)
    except (WeftError, OSError) as error:  # the first failure matters more
        log.warning("the workspace of %s stays: %s", prepared.branch, error)


def on_base(site: Site, prepared: Workspace, base: str) -> Workspace:
    """Return the workspace with `base` as the commit that its work is compared with."""
    if prepared.base == base:
        return prepared
    commit = git.get_commit(site.root, base)
    return replace(prepared, base=commit.id, base_tree=commit.tree)


def _fill(
    site: Site,
    grant: Grant,
    task: Task,
    agent: Agent,
    prepared: Workspace,
    beginning: Beginning,
    *,
    renewed: Callable[[], float],
) -> Begun:
    directory = site.directory(grant.task, grant.attempt)
    adapter = get_adapter(agent)
    if grant.stage == PLAN and not (grant.files or agent.tools):
        agent = replace(agent, tools=adapter.FACTS.reading)  # a planner needs no other tools
    ports = [
        unit for name, units in grant.units.items() if name.endswith("/port") for unit in units
    ]
    given = workspace.port_variables([site.config.workspace.first_port + port for port in ports])
    boxed_setup = site.config.workspace.setup and prepared.terms.box.kind is not BoxKind.OFF
    if agent.sandbox is not BoxKind.OFF or boxed_setup:
        make_quarantine(prepared)
    workspace.set_up(
        prepared,
        site.config.workspace,
        repository=site.root,
        # The mark keeps a reaper from taking the attempt for dead while its set-up runs.
        environment=build_environment(
            site.environment,
            asked=(),
            given={**given, process_table.MARK: site.marker(grant.task, grant.attempt)},
        ),
    )
    last = beginning.resumed
    if last is not None and adapter.FACTS.session_stays:
        last = last if _find_workspace(site, last) == prepared.path else None
    ordered = _order(site, grant, task, agent, adapter, prepared, beginning, last)
    messages = list_to_task(site.store, task.id)
    mcp = _tools(site, grant, task, agent)
    briefing = brief(
        task,
        grant,
        needs=list_needs(site.store, task.id),
        history=history(site.store, task.id),
        tests=beginning.tests,
        subject=beginning.subject,
        messages=messages,
        sent=list_sent(site.store, task.id) if grant.stage == LEAD else (),
        review=find_round(site.store, task.id),
        hop=_find_hop(site, task, grant),
        steps=_list_next(site, agent),
        tools=mcp is not None,
        prose={} if site.settings is None else site.settings.prose,
        candidates=_read_candidates(site, task),
        interrupted=beginning.interrupted or (beginning.resumed if last is None else None),
    )
    text = prompt.write_prompt(agent, briefing)
    played = find_played(site, agent, ordered, text)
    if played is not None:
        program = ADAPTERS[played.adapter].FACTS.program or agent.name
        ordered = replace(ordered, adapter=played.adapter, program=program, after=played.after)
        apply_patch(prepared.path, played)
    launch = adapter.launch(
        agent,
        text,
        Start(
            directory=str(directory),
            tape={} if played is None else make_tape(played, directory),
            session=None if last is None else last.session,
            mcp=mcp,
            micro_usd=ordered.budget.micro_usd or ordered.reserved or None,
            root=os.geteuid() == 0,
            settings=settings_directory.read_settings(agent, adapter.FACTS, site.environment),
        ),
    )
    whole = text.encode("utf-8", "replace")
    kept = {} if launch.stdin == whole else {PROMPT: whole}
    _write_files(directory, {**launch.files, **kept})
    ordered = replace(ordered, argv=_shorten(site, launch.argv))
    given |= environment(agent, launch, adapter.FACTS, site.environment)
    given |= settings_directory.lay_out(agent, adapter.FACTS, site.environment, directory)
    given |= prompt.environment(briefing)
    spawn = _spawn(site, grant, adapter, launch, prepared, directory, given)
    spawn, warnings = enter_agent_box(
        spawn, agent, prepared.terms.box, site.able, site.config, prepared
    )
    start_record.save(directory, ordered)
    running = process.start(spawn, site.launcher, renewed=renewed())
    _confirm(site, messages)
    return Begun(order=ordered, workspace=prepared, running=running, warnings=warnings)


def _find_hop(site: Site, task: Task, grant: Grant) -> Hop | None:
    attempts = list_attempts(site.store, task.id)
    earlier = [attempt for attempt in attempts if attempt.number < grant.attempt]
    return find_hop(list_hops(site.store, task.id), earlier)


def _list_next(site: Site, agent: Agent) -> tuple[NextAgent, ...]:
    """Describe the agents that may follow; a missing file is an error before any agent runs."""
    return tuple(describe_next(site.read_agent(name)) for name in agent.hands_to)


def _read_candidates(site: Site, task: Task) -> tuple[str, ...]:
    """Return the diffs that a judge compares."""
    pair = task.request.compares
    if pair is None:
        return ()
    return tuple(
        make_patch(site.root, base, commit).decode(errors="replace")
        for base, commit in zip(pair.bases, pair.commits, strict=True)
    )


def _shorten(site: Site, argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command line for a record: without secrets, and without a whole prompt."""
    return tuple(site.store.redactor.redact_text(word)[:_LONGEST_WORD] for word in argv)


def _confirm(site: Site, messages: Sequence[Message]) -> None:
    """Mark the messages delivered. After a crash they are delivered again."""
    if not messages:
        return
    last = messages[-1]
    assert last.to_task is not None
    try:
        confirm_to_task(site.store, last.to_task, last.id, now=time.time())
    except StoreError as error:
        log.warning("messages to task %s will be delivered again: %s", last.to_task, error)


def _tools(site: Site, grant: Grant, task: Task, agent: Agent) -> Mcp | None:
    """Make a token for weft's own tools, valid for this task while its lease is open."""
    if site.mcp is None or (agent.sandbox is not BoxKind.OFF and not agent.network):
        return None
    rights = describe_tool_rights(task, grant.stage, agent.sends_to)
    _, token = create_token(
        site.store,
        name=rights.name,
        scopes=sorted(rights.scopes),
        tenant=rights.tenant,
        fence=grant.fence,
        agents=sorted(rights.agents),
        now=time.time(),
    )
    return Mcp(url=site.mcp, token=token)


def _order(
    site: Site,
    grant: Grant,
    task: Task,
    agent: Agent,
    adapter: Adapter,
    prepared: Workspace,
    beginning: Beginning,
    last: Attempt | None,
) -> Order:
    usd = next((name for name in grant.demand if is_consumable(name)), None)
    reserved = grant.demand[usd] if usd else 0
    budget = _find_budget(site, grant, task, agent)
    before = Spent() if last is None else _spent_in_session(site, last)
    return Order(
        task=grant.task,
        attempt=grant.attempt,
        name=task.name,
        run=grant.run,
        title=_title(site, task),
        agent=agent.name,
        adapter=agent.runs,
        program=adapter.FACTS.program or agent.name,
        model=agent.model or "",
        provider=agent.provider,
        branch=prepared.branch,
        base=prepared.base,
        files=() if beginning.subject else grant.files,
        start=beginning.start,
        stage=grant.stage,
        tests=beginning.tests,
        subject=beginning.subject,
        workspace=str(prepared.path),
        started=time.time(),
        clock=time.monotonic(),
        wall=_least(task.request.timeout, agent.timeout),
        idle=agent.idle_timeout or adapter.FACTS.idle,
        budget=budget,
        prices=agent.prices,
        usd=usd,
        reserved=reserved,
        before=before,
    )


def _title(site: Site, task: Task) -> str:
    """Return the title of a task; a task without a title is called by its first hand-over."""
    hops = list_hops(site.store, task.id) if not task.request.title else []
    note = first_sentence(hops[0].note) if hops else ""
    return note or title(task)


def _find_budget(site: Site, grant: Grant, task: Task, agent: Agent) -> AgentBudget:
    """Return the budget of an attempt: in a chain no more than the chain has left."""
    dollars = _least(task.request.budget, agent.budget.micro_usd)
    tokens: float | None = agent.budget.tokens
    hops = list_hops(site.store, task.id)
    if hops:
        whole = chain_budget(task, find_starter(site, agent.name, hops))
        attempts = [old for old in list_attempts(site.store, task.id) if old.number < grant.attempt]
        spent = spent_by(attempts, hops, Spent())
        dollars = _least(_left(whole.micro_usd, spent.micro_usd), agent.budget.micro_usd)
        tokens = _least(_left(whole.tokens, spent.tokens), agent.budget.tokens)
    return AgentBudget(
        micro_usd=None if dollars is None else round(dollars),
        tokens=None if tokens is None else round(tokens),
    )


def _left(whole: int | None, spent: int | None) -> int | None:
    """Return the rest of a budget, at least 1: none at all would mean no bound."""
    return None if whole is None else max(1, whole - (spent or 0))


def _least(asked: float | None, of_file: float | None) -> float | None:
    """Return the tighter bound: a task may lower the bounds of its agent file, never raise them."""
    bounds = [bound for bound in (asked, of_file) if bound is not None and bound > 0]
    return min(bounds, default=None)


def _find_workspace(site: Site, last: Attempt) -> Path | None:
    """Return the path of an attempt's workspace; None if it was not on this machine."""
    ordered = start_record.find(site.directory(last.task, last.number))
    return Path(ordered.workspace) if ordered is not None and ordered.workspace else None


def _spent_in_session(site: Site, last: Attempt) -> Spent:
    """Return the use of a session; its record is on the machine where the session started."""
    known = start_record.find_use(site.directory(last.task, last.number))
    return known or Spent(tokens=TokenCount(input=last.tokens), micro_usd=last.micro_usd or None)


def _write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)


def _spawn(
    site: Site,
    grant: Grant,
    adapter: Adapter,
    launch: Launch,
    prepared: Workspace,
    directory: Path,
    given: Mapping[str, str],
) -> Spawn:
    tuning = site.config.tuning
    return Spawn(
        argv=launch.argv,
        environment=build_environment(site.environment, asked=(), given=given),
        cwd=prepared.path,
        directory=directory,
        marker=site.marker(grant.task, grant.attempt),
        stdin=launch.stdin,
        gone_after=tuning.gone_after,
        grace=tuning.kill_grace,
        first=adapter.FACTS.first_signal,
        output_limit=tuning.output,
    )
