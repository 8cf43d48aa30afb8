"""A worker that does its work in all the ways there are, and a reaper beside it.

Started as a program: `python -m store.worker_program '{"role": "work", …}'`. It speaks to the
store through weft alone, and holds real locks (`signs`) on whatever a grant says is its own;
finding one of them taken ends it with an error, which the test sees.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from store.life_locks import Signs
from store.workload import BOOT, HOST, LIMITS, PATTERNS, TUNING, USD, new_worker
from weft.errors import StaleFence
from weft.model import TERMINAL, Grant, Lease, LeaseState, Outcome, State
from weft.paths import is_literal
from weft.store import Store, open_store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.attempt_reports import report
from weft.store.leases import adopt, extend, list_open, release, renew, reserve
from weft.store.tasks import count_states
from weft.store.wake import Listener
from weft.store.workers import depart, heartbeat, register
from weft.worker.reaper import Here, Silence, sweep

SLOW_POLL = 1.0
LAST_ATTEMPT = 5  # this one always succeeds, so that all work ends


class Broken(Exception):
    """The store promised something and did not keep it."""


@dataclass(kw_only=True)
class HeldAttempt:
    """One attempt under way: what it holds for real, and when its work is over."""

    fence: int
    task: int
    attempt: int
    ends: float
    grant: Grant | None = None  # None: taken over from a dead worker
    marker: int | None = None
    things: list[int] = field(default_factory=list)
    child: subprocess.Popen[bytes] | None = None


def spent(desk: HeldAttempt) -> dict[str, int]:
    """What the work of a desk cost, if anything; who is killed has spent all it had reserved."""
    return {USD: 1} if desk.grant is not None and USD in desk.grant.demand else {}


class Worker:
    def __init__(self, store: Store, signs: Signs, name: str, seed: int, slots: int) -> None:
        self.store = store
        self.signs = signs
        self.name = name
        self.slots = slots
        self.rng = random.Random(seed)
        self.desks: list[HeldAttempt] = []
        self.strength = self.rng.randint(20, 80)  # attempts until it leaves of its own accord
        self.beaten = 0.0

    def work(self, listener: Listener) -> None:
        parent = os.getppid()
        while os.getppid() == parent:
            self.beat()
            for desk in [one for one in self.desks if one.ends <= time.monotonic()]:
                self.conclude(desk)
            started = self.start_more()
            if not self.desks and (self.strength <= 0 or self.is_all_done()):
                return
            if not started:
                listener.wait(self.spare_time())

    def is_all_done(self) -> bool:
        return all(state in TERMINAL for state in count_states(self.store))

    def spare_time(self) -> float:
        ends = [desk.ends - time.monotonic() for desk in self.desks]
        return max(0.0, min([SLOW_POLL, *ends]))

    def beat(self) -> None:
        if time.monotonic() - self.beaten < 0.15:
            return
        self.beaten = time.monotonic()
        if not heartbeat(self.store, self.name, now=time.time()):
            raise Broken("I was found dead")
        lost = renew(self.store, [desk.fence for desk in self.desks], now=time.time())
        if lost:
            raise Broken(f"I live, and lost {lost}")
        self.adopt_orphans()

    def start_more(self) -> bool:
        if len(self.desks) >= self.slots or self.strength <= 0:
            return False
        grants = admit(self.store, self.name, now=time.time())
        for grant in grants:
            self.strength -= 1
            self.start(grant)
        return bool(grants)

    def start(self, grant: Grant) -> None:
        desk = HeldAttempt(
            fence=grant.fence,
            task=grant.task,
            attempt=grant.attempt,
            grant=grant,
            ends=time.monotonic() + self.rng.uniform(0.002, 0.04),
            marker=self.signs.begin(grant.task, grant.attempt),
        )
        self.desks.append(desk)
        for resource, units in grant.units.items():
            for unit in units:
                self.seize(desk, f"{resource}/{unit}")
        for file in filter(is_literal, grant.files):
            self.seize(desk, file)
        if self.rng.random() < 0.2:
            self.delegate(desk)
        if USD in grant.demand and self.rng.random() < 0.4:
            self.ask_for_money(desk)

    def seize(self, desk: HeldAttempt, thing: str) -> None:
        try:
            desk.things.append(self.signs.seize(thing))
        except BlockingIOError:
            raise Broken(f"fence {desk.fence} was granted {thing}, which is in use") from None

    def delegate(self, desk: HeldAttempt) -> None:
        """Let a child do the work: it outlives us if we are killed."""
        assert desk.marker is not None
        seconds = self.rng.choice([0.02, 0.1, 0.5])
        desk.child = subprocess.Popen(["sleep", str(seconds)], pass_fds=(desk.marker,))
        desk.ends = time.monotonic() + seconds

    def ask_for_money(self, desk: HeldAttempt) -> None:
        if reserve(self.store, desk.fence, {USD: 250}, now=time.time()):
            report(self.store, desk.fence, {"reserved": {USD: 250}}, now=time.time())

    def adopt_orphans(self) -> None:
        for lease in list_open(self.store):
            if self.is_orphan(lease):
                assert lease.task is not None
                assert lease.attempt is not None
                with suppress(StaleFence):  # somebody else was faster, or it has just ended
                    fence = adopt(self.store, lease.fence, self.name, now=time.time())
                    self.desks.append(
                        HeldAttempt(fence=fence, task=lease.task, attempt=lease.attempt, ends=0.0)
                    )

    def is_orphan(self, lease: Lease) -> bool:
        if lease.state is not LeaseState.SUSPECT or lease.worker is None or lease.task is None:
            return False
        assert lease.attempt is not None
        return not self.signs.lives(lease.worker) and self.signs.goes_on(lease.task, lease.attempt)

    def conclude(self, desk: HeldAttempt) -> None:
        if desk.grant is None and self.signs.goes_on(desk.task, desk.attempt):
            desk.ends = time.monotonic() + 0.02
            return
        if desk.child is not None:
            desk.child.wait()
        roll = self.rng.random() if desk.grant and desk.attempt < LAST_ATTEMPT else 1.0
        if roll < 0.08:
            self.hand_back(desk)
        elif roll < 0.16:
            self.park(desk)
        elif roll < 0.30:
            self.widen(desk)
        else:
            self.complete(desk)

    def leave(self, desk: HeldAttempt) -> None:
        """Nothing of it is used any more; only then may the store hear that."""
        self.desks.remove(desk)
        for descriptor in desk.things:
            os.close(descriptor)
        self.signs.end(desk.task, desk.attempt, desk.marker)

    def hand_back(self, desk: HeldAttempt) -> None:
        report(self.store, desk.fence, {"step": "handing back"}, now=time.time())
        self.leave(desk)
        if not release(self.store, desk.fence, now=time.time(), spent=spent(desk)):
            raise Broken(f"fence {desk.fence} was released before")
        if release(self.store, desk.fence, now=time.time()):
            raise Broken(f"fence {desk.fence} was released twice")

    def park(self, desk: HeldAttempt) -> None:
        until = time.time() + self.rng.uniform(0.01, 0.2)
        self.end(
            desk, Outcome(state=State.PARKED, kind="rate_limit", until=until, spent=spent(desk))
        )

    def widen(self, desk: HeldAttempt) -> None:
        """Claim one more file; if that is not granted at once, give up everything."""
        assert desk.grant is not None
        more = self.rng.choice(PATTERNS)
        if not extend(self.store, desk.fence, [more], now=time.time()):
            if is_literal(more) and more not in desk.grant.files:
                self.seize(desk, more)
            self.complete(desk)
            return
        files = (*desk.grant.files, more)
        report(self.store, desk.fence, {"wants": files}, now=time.time())
        self.end(
            desk,
            Outcome(
                state=State.READY, kind="scope", sent_back=True, files=files, spent=spent(desk)
            ),
        )

    def complete(self, desk: HeldAttempt) -> None:
        done = Outcome(state=State.DONE, spent=spent(desk))
        self.end(desk, done)
        if self.rng.random() < 0.2:
            again = finish(self.store, desk.fence, done, now=time.time())
            if again is not State.DONE:
                raise Broken(f"task {desk.task} was done and is {again}")
        if self.rng.random() < 0.2:
            self.try_late_effects(desk)

    def end(self, desk: HeldAttempt, outcome: Outcome) -> None:
        self.leave(desk)
        state = finish(self.store, desk.fence, outcome, now=time.time())
        if outcome.state is not State.READY and state is not outcome.state:
            raise Broken(f"task {desk.task} is {state}, not {outcome.state}")

    def try_late_effects(self, desk: HeldAttempt) -> None:
        if renew(self.store, [desk.fence], now=time.time()) != [desk.fence]:
            raise Broken(f"fence {desk.fence} was renewed after its end")
        for effect in (
            lambda: report(self.store, desk.fence, {"step": "late"}, now=time.time()),
            lambda: extend(self.store, desk.fence, ["late"], now=time.time()),
        ):
            with suppress(StaleFence):
                effect()
                raise Broken(f"fence {desk.fence} had an effect after its end")


def work(settings: dict[str, str], signs: Signs) -> None:
    name = settings["name"]
    signs.live(name)
    with (
        open_store(settings["url"], tuning=TUNING, limits=LIMITS) as store,
        store.listen("work") as listener,
    ):
        worker = Worker(store, signs, name, int(settings["seed"]), int(settings["slots"]))
        start = psutil.Process().create_time()
        register(
            store,
            new_worker(name, worker.slots, pid=os.getpid(), pid_start=start),
            now=time.time(),
            stated={},
        )
        worker.work(listener)
        depart(store, name, now=time.time())


def reap(settings: dict[str, str], signs: Signs) -> None:
    parent = os.getppid()
    silence = Silence()
    with open_store(settings["url"], tuning=TUNING, limits=LIMITS) as store:
        while os.getppid() == parent:
            sweep(
                store,
                here=Here(host=HOST, boot=BOOT),
                silence=silence,
                prove_worker_dead=signs.prove_worker_dead,
                prove_dead=signs.prove_dead,
                now=time.time(),
                boottime=time.monotonic(),
            )
            time.sleep(0.1)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    {"work": work, "reap": reap}[given["role"]](given, Signs(Path(given["signs"])))
