"""The swarm as a state machine: members of two tenants, senders and time do anything, in any order.

After each step an outside observer looks at all rows; what is refused must have changed nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from databases import fresh_database, wipe
from observer import TERMINAL, Observer, Picture
from swarm_helpers import done, stop
from weft.config import Tuning
from weft.errors import Forbidden, InputError, Refused
from weft.operations import dispatch, inbox, long_poll, member_work, membership
from weft.operations.identity import Identity
from weft.operations.member_records import NewWork, TaskResult
from weft.store import Store, open_store
from weft.store.leases import free_proved_dead, suspect_overdue
from weft.store.workers import depart

TUNING = Tuning(queue=8, lease=30, offer=20, prefer=15, inbox=3)
LIMITS = {"llm": 2, "requests": 4, "runs": 4}
WHO = {
    name: Identity(f"t-{name}", name, frozenset({"work"}), tenant=tenant)
    for name, tenant in (("ann", "acme"), ("bob", "globex"), ("cat", None))
}
names = st.sampled_from(sorted(WHO))
pick = st.integers(min_value=0, max_value=10**6)


class SwarmMachine(RuleBasedStateMachine):
    """One member for each identity, of the same name."""

    url: str  # set by the test for each kind of store

    @initialize()
    def begin(self) -> None:
        wipe(self.url)
        self.store: Store = open_store(self.url, tuning=TUNING, limits=LIMITS)
        self.eye = Observer(self.url)
        self.now = 1_000_000.0
        self.ended: dict[int, str] = {}
        for name in WHO:
            self.come(name, 2)

    def teardown(self) -> None:
        if hasattr(self, "eye"):
            self.eye.close()
            self.store.close()

    def come(self, name: str, slots: int) -> None:
        capabilities = ("py",) if name == "ann" else ()
        membership.join(
            self.store,
            WHO[name],
            name=name,
            id=name,
            is_lead=name == "cat",
            capabilities=capabilities,
            max_tasks=slots,
            now=self.now,
        )

    def picture(self) -> Picture:
        return Picture(self.eye.everything())

    def ask(self, verb: Any, *args: Any, **said: Any) -> Any:
        """Ask for something. Who is refused has changed nothing, but what time had changed."""
        before = self.picture().tables
        try:
            return done(verb(self.store, *args, **said, now=self.now))
        except (Refused, Forbidden, InputError):
            after = self.picture().tables
            if verb not in (member_work.claim, member_work.accept, member_work.finish):
                assert after == before
            assert Picture(after).used == Picture(before).used or verb is member_work.finish
            return None

    def task(self, choice: int) -> int:
        rows = self.eye.rows("tasks")
        return 1 + choice % max(1, len(rows))

    def fence(self, choice: int) -> int:
        rows = self.eye.rows("leases")
        return 1 + choice % max(1, len(rows))

    @rule(
        who=names,
        to=names,
        how=st.sampled_from(["pool", "pool", "assign", "queue", "offer", "prefer"]),
        agent=st.sampled_from([None, None, "py"]),
        files=st.sampled_from([(), ("a.py",), ("src/**",), ("src/x.py", "a.py")]),
        uses=st.sampled_from([{}, {"llm": 1}, {"llm": 2}]),
        need=st.none() | pick,
    )
    def send(
        self, who: str, to: str, how: Any, agent: str | None, files: Any, uses: Any, need: Any
    ) -> None:
        work = NewWork(
            text="x",
            to=None if how == "pool" else to,
            how=how,
            agent=agent,
            files=files,
            uses=uses,
            needs=() if need is None else (self.task(need),),
            sender=who,
        )
        self.ask(dispatch.send, WHO[who], work)

    @rule(who=names, member=names, confirm=st.booleans())
    def poll(self, who: str, member: str, confirm: bool) -> None:
        found = self.ask(long_poll.poll, WHO[who], member)
        assert found is None or who == member
        if found is not None and found.ack is not None and confirm:
            again = self.ask(long_poll.poll, WHO[who], member, ack=found.ack)
            assert again is None or again.ack != found.ack

    @rule(who=names, member=names, choice=pick)
    def claim(self, who: str, member: str, choice: int) -> None:
        claimed = self.ask(member_work.claim, WHO[who], member, self.task(choice))
        assert claimed is None or who == member

    @rule(who=names, choice=pick, verb=st.sampled_from([member_work.accept, member_work.reject]))
    def answer(self, who: str, choice: int, verb: Any) -> None:
        self.ask(verb, WHO[who], who, self.task(choice))

    @rule(who=names, choice=pick, status=st.sampled_from(["completed", "failed"]))
    def finish(self, who: str, choice: int, status: Any) -> None:
        fence, result = self.fence(choice), TaskResult(status=status, text="said")
        first = self.ask(member_work.finish, WHO[who], fence, result)
        if first is not None:
            frozen = self.picture().tables
            assert member_work.finish(self.store, WHO[who], fence, result, now=self.now) == first
            frozen["workers"] = self.picture().tables["workers"]  # a sign of life it is
            after = self.picture().tables
            frozen["leases"] = after["leases"]  # which renews what else it holds
            assert after == frozen

    @rule(who=names, choice=pick)
    def release(self, who: str, choice: int) -> None:
        fence = self.fence(choice)
        if self.ask(member_work.release, WHO[who], fence):
            frozen = self.picture().tables
            assert not member_work.release(self.store, WHO[who], fence, now=self.now)
            assert self.picture().tables == frozen

    @rule(
        who=names,
        choice=pick,
        verb=st.sampled_from([member_work.progress, member_work.claim_files]),
    )
    def go_on(self, who: str, choice: int, verb: Any) -> None:
        args = (["b.py", "src/y.py"],) if verb is member_work.claim_files else ()
        self.ask(verb, WHO[who], self.fence(choice), *args)

    @rule(who=names, choice=pick)
    def cancel(self, who: str, choice: int) -> None:
        self.ask(stop, WHO[who], self.task(choice))

    @rule(who=names, to=names)
    def say(self, who: str, to: str) -> None:
        self.ask(inbox.send_message, WHO[who], "hey", member=to)

    @rule(name=names, slots=st.integers(1, 3))
    def join_again(self, name: str, slots: int) -> None:
        self.come(name, slots)

    @rule(who=names, member=names)
    def leave(self, who: str, member: str) -> None:
        self.ask(membership.close, WHO[who], member)

    @rule(name=names)
    def fall_silent(self, name: str) -> None:
        """The reaper found it gone, and frees what it held."""
        depart(self.store, name, now=self.now)
        for lease in suspect_overdue(self.store, now=self.now):
            if lease.worker == name:
                assert free_proved_dead(self.store, lease.fence, now=self.now, proof="silence")

    @rule(seconds=st.sampled_from([1.0, 10.0, 16.0, 21.0, 1000.0, -86_400.0]))
    def time_passes(self, seconds: float) -> None:
        before = self.picture().used
        self.now += seconds
        assert self.picture().used == before

    @precondition(lambda self: hasattr(self, "eye"))
    @invariant()
    def nothing_is_broken(self) -> None:
        picture = self.picture()
        assert picture.broken() == []
        workers = {row["id"]: row for row in picture.tables["workers"]}
        for lease in picture.open_leases:
            task, member = picture.tasks[lease["task"]], workers[lease["worker"]]
            assert task["agent"] in (None, *json.loads(member["agents"]))
        for task_id, state in self.ended.items():
            assert picture.tasks[task_id]["state"] == state  # 13: one terminal outcome
        self.ended = {n: t["state"] for n, t in picture.tasks.items() if t["state"] in TERMINAL}
        met = {n for n, t in picture.tasks.items() if t["state"] in ("done", "skipped")}
        begun = {
            n for n, t in picture.tasks.items() if t["state"] in ("ready", "offered", "running")
        }
        assert not [
            e for e in picture.tables["edges"] if e["task"] in begun and e["needs"] not in met
        ]


@pytest.fixture(scope="module")
def machine_urls(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: str
) -> Iterator[dict[str, str]]:
    directory = tmp_path_factory.mktemp("swarm")
    with fresh_database(postgres_server) as postgres:
        yield {"sqlite": f"sqlite:///{directory / 'weft.db'}", "postgres": postgres}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 30), ("postgres", 5)])
def test_nothing_that_members_and_senders_do_breaks_an_invariant(
    machine_urls: dict[str, str], kind: str, examples: int
) -> None:
    class Machine(SwarmMachine):
        url = machine_urls[kind]

    with open_store(Machine.url):
        pass
    run_state_machine_as_test(
        Machine,
        settings=settings(max_examples=examples, stateful_step_count=40, print_blob=True),
    )
