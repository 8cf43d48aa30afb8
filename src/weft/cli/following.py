"""Serving and following one task: run the loops if need be, and print what its agent says."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import anyio
import click
from anyio.to_thread import run_sync

from weft.engine import Interrupted, open_site, serving
from weft.model import TERMINAL, Event, Grant, State
from weft.operations.project import Project
from weft.store import Store
from weft.store.admission import admit_task
from weft.store.agents import list_stopped
from weft.store.events import read_events
from weft.store.probe import probe
from weft.store.tasks import cancel, get_task

_NET = 1.0  # seconds after which to look although nobody rang
_PATIENCE = 1.0  # seconds a task may wait before people are told what for


class Printer:
    """Prints events of one task as lines for people."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._waits: list[str] = []

    def waits(self, reasons: list[str]) -> None:
        if reasons and reasons != self._waits:
            self._say("… waits for " + "; ".join(reasons))
        self._waits = reasons

    def event(self, event: Event) -> None:
        data = event.data
        match event.kind:
            case "task_admitted":
                self._say(f"▶ attempt {data['attempt']}")
            case "attempt_adopted":
                self._say("▶ goes on, adopted from a weft that is gone")
            case "progress":
                for said in data.get("events", ()):
                    self._agent(said)
                if "warning" in data:
                    self._say(f"! {data['warning']}")
            case "attempt_finished" if data["outcome"] != "success":
                self._say(f"✗ {data['outcome']}: {data['reason']} → {data['state']}")
            case "attempt_released":
                self._say(f"✗ handed back: {data['reason']}")
            case "agent_stopped":
                self._say(f"✗ agent {data['agent']} is stopped: {data['reason']}")

    def _agent(self, said: dict[str, Any]) -> None:
        match said["type"]:
            case "text" | "result":
                for line in said["text"].splitlines() if said["type"] == "text" else ():
                    self._say(f"  {line}")
            case "tool":
                self._say(f"  → {said['name']} {said['detail']}".rstrip())
            case "rate_limit" | "retrying" | "error":
                self._say(f"  ! {said['type']}: {said['text']}")

    def _say(self, line: str) -> None:
        if not self._quiet:
            click.echo(printable(line))


def printable(line: str) -> str:
    """What an agent says is data: it may not steer the terminal."""
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line)


def follow(project: Project, store: Store, task: int, printer: Printer) -> None:
    """Serve this task until it has ended or needs a person."""
    anyio.run(_follow, project, store, task, printer)


async def _follow(project: Project, store: Store, task: int, printer: Printer) -> None:
    def take(worker: str) -> Sequence[Grant]:
        return admit_task(store, worker, task, now=time.time())

    with open_site(store, project.root, project.config, project.environment) as site:
        try:
            async with serving(site, slots=1, take=take):
                await _watch(store, task, printer)
        except Interrupted:
            await run_sync(_give_up, store, task)
            raise KeyboardInterrupt from None


def _give_up(store: Store, task: int) -> None:
    """Nobody waits for it any more."""
    cancel(store, task, now=time.time(), reason="interrupted")


async def _watch(store: Store, task: int, printer: Printer) -> None:
    after = 0
    since = time.monotonic()
    with store.listen("events") as listener:
        while True:
            events = await run_sync(_read, store, after)
            for event in events:
                after = event.id
                if event.task == task:
                    printer.event(event)
            if events:
                continue
            state = (await run_sync(get_task, store, task)).state
            if state in TERMINAL or state is State.BLOCKED:
                return
            if state is State.READY and time.monotonic() - since > _PATIENCE:
                printer.waits(await run_sync(_reasons, store, task))
                if await run_sync(_is_stopped, store, task):
                    await run_sync(_give_up, store, task)
                    return
            elif state is not State.READY:
                since = time.monotonic()
            with anyio.move_on_after(_NET):
                await anyio.wait_readable(listener)
            listener.wait(0)


def _read(store: Store, after: int) -> list[Event]:
    return read_events(store, after=after)


def _reasons(store: Store, task: int) -> list[str]:
    return [wait.text for wait in probe(store, task, now=time.time())]


def _is_stopped(store: Store, task: int) -> bool:
    """Whether its agent cannot run before a person has looked."""
    return get_task(store, task).agent in list_stopped(store, now=time.time())
