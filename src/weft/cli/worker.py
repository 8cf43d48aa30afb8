"""`weft worker`"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
from msgspec import Struct

from weft.cli.command_arguments import Duration, read_labels
from weft.cli.output import json_option, say, worker_slots_option
from weft.cli.poll_interval import A_RUN
from weft.cli.worker_loops import serve
from weft.errors import InputError, StoreError
from weft.formats import duration
from weft.git.repository import NotARepository
from weft.model import Event, Task
from weft.process.service_manager import notify_ready
from weft.project.project import get_local_project
from weft.project.server_address import SERVER
from weft.runs.event_text import About, Teller, line
from weft.store import Store
from weft.store.event_log import last_event, read_events
from weft.store.leases import list_open
from weft.store.tasks import get_task
from weft.words import full_label
from weft.worker.engine import Interrupted, ToldToLeave, guard
from weft.worker.heartbeat import WorkerTraits

_STARTS: Final = ("task_admitted", "attempt_adopted")
_AT_ONCE: Final = 1000  # events


@click.command(name="worker")
@worker_slots_option
@click.option(
    "--server",
    metavar="URL",
    help="Work for this server, from any directory. Default: WEFT_SERVER.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File with a token to join the server (`weft token create --join`); needed once.",
)
@click.option(
    "--exit-when-idle",
    type=Duration("60s or 15m"),
    metavar="60s",
    help="End after this time without a task. Default: never.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    callback=read_labels,
    metavar="LABEL",
    help="A label of this host, such as gpu, for tasks and agents that need it; a comma list, or "
    "repeated.",
)
@click.option(
    "--checks",
    type=click.Choice(["yes", "no"]),
    help="Run checks of gates. Default: yes; with --server, yes if the token allows it "
    "(`weft token create --join --checks`).",
)
@click.option(
    "--leave",
    is_flag=True,
    help="Tell the workers of this host to hand back their tasks and end; wait until they have.",
)
@json_option
@click.pass_obj
def command(
    directory: Path,
    slots: int | None,
    server: str | None,
    token_file: Path | None,
    exit_when_idle: float | None,
    labels: tuple[str, ...],
    checks: str | None,
    leave: bool,
    as_json: bool,
) -> int:
    """Run tasks from the store until interrupted.

    It takes those of this repository, as many at once as it has slots.

    With --server it takes the tasks of a server's repository, on a host that has only weft, git
    and the agents' programs. The host joins with a token that is good for that alone, and keeps
    the token it gets. Agent files come from the server, variables from this host.

    A host that takes checks runs those for which home has no free place. With --checks no, a
    worker at home leaves checks to such hosts while there are any.

    After a crash this is what goes on: agents that still run are adopted, what they did
    meanwhile is not lost. Ctrl-C once takes nothing more and lets what runs end, for up to 30 s
    (SHUTDOWN_TIMEOUT, in milliseconds); what has not ended then is handed back. Twice is at once.
    `weft worker --leave`, with the same server, hands back at once: agents are stopped,
    their work is kept, and their tasks start again elsewhere without a lost attempt.

    With --json each attempt and each check for home that starts or ends is one JSON object on a
    line, and so is each warning about an attempt. Other warnings, such as those at the start, are
    plain text on standard error.
    """
    if server is not None:
        os.environ[SERVER] = server
    if leave:
        if slots or token_file or exit_when_idle or labels or checks:
            raise InputError("--leave ends workers: of the other options give --server.")
        from weft.cli.host_worker import leave_host  # late: few commands need it

        return leave_host(directory, as_json=as_json)
    options = WorkerOptions(
        slots=slots,
        traits=WorkerTraits(labels=labels, alone=True),
        idle=exit_when_idle,
        checks=None if checks is None else checks == "yes",
        as_json=as_json,
    )
    if os.environ.get(SERVER):
        from weft.cli.host_worker import work_for_server  # late: HTTP takes time to import

        work_for_server(directory, token_file, options)
    elif token_file is not None:
        raise InputError("--token-file is for --server: a worker beside its store needs no token.")
    else:
        _work_at_home(directory, options)
    return 0


class WorkerOptions(Struct, frozen=True, kw_only=True):
    slots: int | None
    traits: WorkerTraits
    idle: float | None
    checks: bool | None  # None: at home yes, elsewhere as the token says
    as_json: bool


def _work_at_home(directory: Path, options: WorkerOptions) -> None:
    """Run the tasks of this repository until interrupted or idle."""
    try:
        project = get_local_project(directory, os.environ)
    except NotARepository:
        raise InputError(
            f"{directory.resolve()} is in no git repository. Start `weft worker` in the repository "
            "whose tasks it takes; on another machine give --server URL."
        ) from None
    slots = options.slots or project.config.worker_slots
    with project.open_store() as store:
        journal = WorkerLog(
            store, after=last_event(store), idle=options.idle, as_json=options.as_json
        )
        with suppress(Interrupted):
            serve(
                project,
                store,
                journal.begin,
                slots=slots,
                traits=options.traits,
                beside=guard,
                checks=options.checks is not False,
            )
        journal.read()


class WorkerLog:
    """The lines about this worker's attempts and its checks for other hosts: starts, ends and
    warnings."""

    rhythm = A_RUN

    def __init__(
        self, store: Store, *, after: int, as_json: bool, idle: float | None = None
    ) -> None:
        """Begin after an event. `idle` is the time without an attempt after which all ends."""
        self._idle = idle
        self._busy_at = time.monotonic()
        self._teller = Teller()
        self._store = store
        self._after = after
        self._as_json = as_json
        self._worker = ""
        self._fences: set[int] = set()
        self._tasks: dict[int, Task] = {}  # of running attempts
        self._checks: set[tuple[str, str]] = set()  # runs and trees that it checks for home
        self._told_to_leave = False

    def begin(self, worker: str) -> WorkerLog:
        self._worker = worker
        notify_ready()
        self._say({"event": "worker_registered", "worker": worker}, f"worker {worker} takes tasks")
        return self

    def look(self) -> bool:
        try:
            self.read()
            held = any(lease.worker == self._worker for lease in list_open(self._store))
        except StoreError:
            # A store that is gone gives no task: an idle worker ends, the reaper frees its leases.
            if self._idle is not None and time.monotonic() - self._busy_at >= self._idle:
                return True
            raise
        if self._told_to_leave:
            raise ToldToLeave  # agents are stopped at once, and their tasks handed back
        if self._idle is None:
            return False
        if held:
            self._busy_at = time.monotonic()
        return time.monotonic() - self._busy_at >= self._idle

    def read(self) -> None:
        more = True
        while more:
            events = read_events(self._store, after=self._after, most=_AT_ONCE)
            more = len(events) == _AT_ONCE
            for event in events:
                self._after = event.id
                self._tell(event)

    def _tell(self, event: Event) -> None:
        data = event.data
        if event.kind == "worker_told_to_leave" and data["worker"] == self._worker:
            self._told_to_leave = True
            fields = {"event": event.kind, "at": event.at, "worker": self._worker}
            self._say(fields, "told to leave: tasks are handed back")
        if event.kind in _STARTS and data["worker"] == self._worker:
            self._fences.add(data["fence"])
        self._tell_of_check(event)
        if event.task is None or data.get("fence") not in self._fences or line(event) is None:
            return
        task = self._get_task(event.task)
        about = About(task=f"{full_label(task)} ({task.agent})")
        text = self._teller.line(event, about)
        if text:
            fields = {"event": event.kind, "at": event.at, "task": task.id, "name": task.name}
            self._say({**fields, "agent": task.agent, **data}, text)
        if event.kind == "attempt_finished":
            del self._tasks[task.id]

    def _get_task(self, id: int) -> Task:
        if id not in self._tasks:
            self._tasks[id] = get_task(self._store, id)
        return self._tasks[id]

    def _tell_of_check(self, event: Event) -> None:
        """Print the start of a check that this worker took from home, and its verdict."""
        data = event.data
        tree = data.get("tree", "")
        fields = {"event": event.kind, "at": event.at, **data}
        if event.kind == "lease_taken" and tree and data["worker"] == self._worker:
            self._checks.add((data["holder"], tree))
            self._say(fields, f"▶ {data['holder']}: check of tree {tree[:12]}")
        if event.kind == "checked" and data["host"] and (event.run, tree) in self._checks:
            mark, word = ("✓", "passed") if data["passed"] else ("✗", "failed")
            took = duration(data["seconds"])
            text = f"{mark} {event.run}: check of tree {tree[:12]} {word} in {took}"
            self._say({**fields, "run": event.run}, text)

    def _say(self, fields: dict[str, Any], text: str) -> None:
        say(json.dumps(fields, ensure_ascii=True) if self._as_json else text)
