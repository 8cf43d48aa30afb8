"""What a follower of many agents costs: from an agent's word to the store."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from bench.figures import figure
from weft.config import Config
from weft.engine import open_site, serving
from weft.model import Event, NewTask
from weft.policy.capacity import attempt_demand
from weft.store import Store, open_store
from weft.store.events import last_event, read_events
from weft.store.tasks import submit

_AGENTS = 50
_WORDS = 8
_AGENT = """\
---
runs: [sh, {script}]
---
{{{{ task.text }}}}
"""
# Says the time, which is then compared with when the store had it.
_SCRIPT = """\
while ! test -e {go}; do sleep 0.1; done
for n in {words}; do sleep 0.$(od -An -N1 -tu1 /dev/urandom | tr -d ' '); date +word-%s.%N; done
"""


@figure("line_lag_ms", "ms", at_most=200)
def line_lag_ms() -> float:
    """From an agent's line to its event in the store, with 50 agents talking at random."""
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="weft-bench-", dir=shared) as place:
        root, go = _make_project(Path(place))
        limits = {"requests": _AGENTS}
        with open_store(f"sqlite:///{place}/weft.db", limits=limits) as store:
            for _ in range(_AGENTS):
                _submit(store, root)
            lags: list[float] = []
            anyio.run(_follow, store, root, go, lags)
    return statistics.median(lags) * 1000


def _make_project(place: Path) -> tuple[Path, Path]:
    root, go, script = place / "project", place / "go", place / "script"
    words = " ".join(map(str, range(_WORDS)))
    script.write_text(_SCRIPT.format(go=go, words=words))
    (root / ".weft" / "agents").mkdir(parents=True)
    (root / ".weft" / "agents" / "talker.md").write_text(_AGENT.format(script=script))
    who = ("-c", "user.name=b", "-c", "user.email=b@localhost")
    for command in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "first")):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root, go


def _submit(store: Store, root: Path) -> None:
    demand = attempt_demand(run=None, stage=None, agent="talker", provider=None)
    task = NewTask(name="", text="Talk.", demand=demand, agent="talker", stage="implement")
    submit(store, task, repo=str(root / ".git"), now=time.time())


async def _follow(store: Store, root: Path, go: Path, lags: list[float]) -> None:
    environment = {"PATH": os.environ["PATH"]}
    with open_site(store, root, Config(), environment) as site:
        async with serving(site, slots=_AGENTS) as scheduler, anyio.create_task_group() as group:
            while len(list(root.glob(".git/weft/attempts/*/*/agent"))) < _AGENTS:
                await anyio.sleep(0.1)
            group.start_soon(_read, store, lags)
            go.touch()
            await scheduler.wait_idle()
            group.cancel_scope.cancel()


async def _read(store: Store, lags: list[float]) -> None:
    """Note for each word when it could be read."""
    after = await run_sync(last_event, store)
    with store.listen("events") as listener:
        while True:
            await anyio.wait_readable(listener)
            listener.wait(0)
            while found := await run_sync(partial(read_events, store, after=after)):
                now, after = time.time(), found[-1].id
                lags += [now - one for event in found for one in _words(event)]


def _words(event: Event) -> list[float]:
    said = event.data.get("events", ()) if event.kind == "progress" else ()
    return [float(one["text"].removeprefix("word-")) for one in said]
