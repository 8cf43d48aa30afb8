"""How fast a waiting worker gets what became ready, and what waiting costs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time

import psutil

from bench.figures import figure
from bench.stores import DEMAND, REPO, open_roomy, postgres_url, sqlite_url
from weft.model import NewTask, Outcome, State
from weft.store import Store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.tasks import submit

_TIMES = 60
_NET = 1.0  # the slow poll every waiter keeps


def wait_for_work(store: Store, worker: str, times: int) -> list[float]:
    """Wait, admit, finish; returns when each lease was held, on the system's clock."""
    held: list[float] = []
    with store.listen("work") as bell:
        while len(held) < times:
            grants = admit(store, worker, now=time.time())
            if not grants:
                bell.wait(_NET)
                continue
            held.append(time.monotonic())
            finish(store, grants[0].fence, Outcome(state=State.DONE), now=time.time())
    return held


def submit_some(store: Store, pause: float = 0.03) -> list[float]:
    """Submit tasks one by one; returns when each was committed."""
    committed = []
    for number in range(_TIMES):
        task = NewTask(name="", demand=DEMAND, files=(f"f{number}.py",))
        submit(store, task, repo=REPO, now=time.time())
        committed.append(time.monotonic())
        time.sleep(pause)
    return committed


def median_ms(committed: list[float], held: list[float]) -> float:
    assert len(committed) == len(held)
    return 1000 * statistics.median(h - c for c, h in zip(committed, held, strict=True))


@figure("wake_ms_inprocess", "ms", at_most=5)
def wake_ms_inprocess() -> float:
    with sqlite_url() as url, open_roomy(url) as store:
        held: list[float] = []
        waiter = threading.Thread(target=lambda: held.extend(wait_for_work(store, "w0", _TIMES)))
        waiter.start()
        committed = submit_some(store)
        waiter.join()
        return median_ms(committed, held)


def wake_ms(url: str) -> float:
    with open_roomy(url) as store:
        waiter = subprocess.Popen(
            [sys.executable, "-m", "bench.waiter", url, str(_TIMES)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "waiting\n"
        time.sleep(0.3)
        committed = submit_some(store)
        output, _ = waiter.communicate(timeout=60)
        return median_ms(committed, [float(line) for line in output.split()])


@figure("wake_ms_sqlite", "ms", at_most=20)
def wake_ms_sqlite() -> float:
    with sqlite_url() as url:
        return wake_ms(url)


@figure("wake_ms_postgres", "ms", at_most=25)
def wake_ms_postgres() -> float:
    with postgres_url() as url:
        return wake_ms(url)


def idle_percent(url: str) -> float:
    """The processor time a waiting process takes, in percent of one core."""
    seconds = 5.0
    with open_roomy(url):
        waiter = subprocess.Popen(
            [sys.executable, "-m", "bench.waiter", url, "1"], stdout=subprocess.PIPE, text=True
        )
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "waiting\n"
        time.sleep(0.5)
        process = psutil.Process(waiter.pid)
        before = sum(process.cpu_times()[:2])
        time.sleep(seconds)
        spent = sum(process.cpu_times()[:2]) - before
        waiter.terminate()
        waiter.wait()
        return 100 * spent / seconds


@figure("idle_cpu_percent", "%", at_most=1)
def idle_cpu_percent() -> float:
    with sqlite_url() as sqlite, postgres_url() as postgres:
        return max(idle_percent(sqlite), idle_percent(postgres))
