"""What needs a person, and what only looks like it: the rule alone, then on what a store has."""

from __future__ import annotations

import time

from cases import each_case
from store_helpers import hire
from weft.admission.capacity import Shortage
from weft.model import HUMAN, AgentFile, NewRun, NewTask, NewWorker, Outcome, State
from weft.runs.attention import Attention, find_attention, read_attention
from weft.store import Store
from weft.store.admission import admit, admit_task, drain
from weft.store.attempt_end import finish
from weft.store.limit_table import penalise, set_limit, stop_agent
from weft.store.overview import AskedWork, Course, Holder, Places, Prospects, Ready
from weft.store.runs import submit_run
from weft.store.tasks import pause, submit
from weft.store.workers import depart, register

R = Course(run="r")
WORK = Ready(run="r", task=1, name="1.1")
NONE_LEFT = (Shortage("requests", 1, 0, 0),)
HELD = Ready(
    run="r", task=1, name="1.1", holder=Holder(task=9, run="other", name="9", stands=False)
)
FULL = Places(capacity=1, used=1)


@each_case(
    "prospects",
    [
        Prospects(courses=(R,), ready=(WORK,)),
        Prospects(courses=(Course(run="r", at_work=True),), drained=1.0),
        Prospects(courses=(Course(run="r", comes_back=True),), drained=1.0),
        Prospects(courses=(Course(run="r", queued=True),), drained=1.0),
        Prospects(courses=(Course(run="r", landing=True, short=NONE_LEFT),)),
        Prospects(courses=(Course(run="r", over=True),)),
        Prospects(courses=(R, Course(run="other", at_work=True)), ready=(HELD,)),
        Prospects(courses=(Course(run="r", waits=True),), places=Places(capacity=1, used=0)),
        Prospects(courses=(Course(run="r", waits=True),)),
        Prospects(
            courses=(Course(run="r", waits=True), Course(run="a", at_work=True)), places=FULL
        ),
    ],
)
def test_what_may_still_move_is_waited_for(prospects: Prospects) -> None:
    assert "r" not in find_attention(prospects).stuck


def short(resource: str, asked: int, used: int, capacity: int) -> Ready:
    return Ready(run="r", task=1, name="1.1", short=(Shortage(resource, asked, used, capacity),))


def test_an_agent_with_a_max_concurrency_of_0_is_paused_by_its_file() -> None:
    prospects = Prospects(courses=(R,), ready=(short("agent:a", 1, 0, 0),))
    [need] = find_attention(prospects).all
    assert "`max_concurrency: 0` in .weft/agents/a.md pauses" in str(need)


@each_case(
    ("prospects", "do"),
    [
        (Prospects(courses=(R,), ready=(WORK,), drained=1.0), "weft drain --undo"),
        (
            Prospects(courses=(R,), ready=(short("run:r/usd", 2_000_000, 3_000_000, 3_000_000),)),
            "weft limits set run:r/usd 5.00",
        ),
        (
            Prospects(courses=(R,), ready=(short("run:r/usd", 1, 3_000_000, 3_000_000),)),
            "weft limits set run:r/usd 3.01",
        ),
        (Prospects(courses=(R,), ready=(short("llm", 1, 0, 0),)), "weft limits set llm 12"),
        (Prospects(courses=(R,), ready=(short("gpu", 2, 0, 1),)), "weft limits set gpu 2"),
        (
            Prospects(courses=(R,), ready=(short("stage:r/implement", 1, 0, 0),)),
            "weft limits set stage:r/implement 4",
        ),
        (
            Prospects(courses=(Course(run="r", queued=True, short=NONE_LEFT),)),
            "weft limits set requests 24",
        ),
        (Prospects(courses=(R,), ready=(short("host:h/ram_mb", 9, 0, 5),)), "weft skip r/1.1"),
        (
            Prospects(courses=(R,), ready=(short("agent:a", 1, 0, 0),), stopped={"a": "gone"}),
            "weft agents resume a",
        ),
        (
            Prospects(courses=(R,), ready=(Ready(run="r", task=1, name="1.1", unable="b"),)),
            "weft agents",
        ),
        (Prospects(courses=(Course(run="r", queued=True, gate="moved"),)), "weft resume r"),
        (Prospects(courses=(Course(run="r", waits=True),), places=FULL), "weft limits set runs 2"),
        (
            Prospects(courses=(Course(run="r", waits=True),), places=Places(capacity=0, used=0)),
            "weft limits set runs 4",
        ),
    ],
)
def test_what_nothing_that_ends_can_change_is_named_with_its_cure(
    prospects: Prospects, do: str
) -> None:
    needs = find_attention(prospects)
    assert needs.stuck == {"r"}
    assert [need.do[0] for need in needs.of("r")] == [do]


@each_case(
    ("state", "do"),
    [
        ("blocked", "weft retry r/1.1"),
        ("paused", "weft resume r/1.1"),
        ("ready", "weft answer r/1.1 --yes"),
        ("failed", "weft retry r/1.1"),
    ],
)
def test_a_task_that_stands_is_named(state: str, do: str) -> None:
    asked = AskedWork(task=1, run="r", name="1.1", title="Agree?", state=state, reason="Why?\nMore")
    human = Ready(run="r", task=1, name="1.1", human=True)
    needs = find_attention(Prospects(courses=(R,), asked=(asked,), ready=(human,)))
    [need] = needs.of("r")
    assert (need.subject, need.do[0]) == ("r/1.1", do)
    assert needs.stuck == {"r"}


def test_a_run_that_was_paused_is_one_thing() -> None:
    tasks = tuple(
        AskedWork(task=n, run="r", name=str(n), title="", state="paused", reason="")
        for n in (1, 2, 3)
    )
    [need] = find_attention(Prospects(courses=(R,), asked=tasks)).all
    assert str(need) == "3 tasks of r are paused (`weft resume r`)"


def test_whoever_waits_for_files_of_a_run_that_stands_needs_what_that_one_needs() -> None:
    """Even at second hand: r waits for other, that one for third, whose gate is blocked."""
    third = Holder(task=7, run="third", name="7", stands=False)
    behind = Ready(run="other", task=9, name="9", holder=third)
    courses = (R, Course(run="other"), Course(run="third", queued=True, gate="moved"))
    needs = find_attention(Prospects(courses=courses, ready=(HELD, behind)))
    assert needs.stuck == {"r", "other", "third"}
    for run in ("r", "other", "third"):
        assert [need.do for need in needs.of(run)] == [("weft resume third",)], run


def test_places_held_by_runs_that_stand_are_told_from_those_of_one_at_work() -> None:
    courses = (Course(run="r", waits=True), Course(run="a"), Course(run="b", comes_back=True))
    places = Places(capacity=2, used=2)
    assert find_attention(Prospects(courses=courses, places=places)).stuck == {"a"}
    standing = (courses[0], courses[1], Course(run="b"))
    needs = find_attention(Prospects(courses=standing, places=places))
    assert needs.stuck == {"r", "a", "b"}
    assert [need.do for need in needs.of("r")] == [("weft limits set runs 3", "weft ps")]


def submitted(store: Store, *tasks: NewTask, run: str = "r", **limits: int) -> dict[str, int]:
    return submit_run(store, NewRun(id=run, repo="r", limits=limits), tasks, now=time.time())


def work(name: str, *files: str, **demand: int) -> NewTask:
    return NewTask(name=name, agent="a", files=files, demand={"worker:@": 1, **demand})


def needs_of(store: Store) -> Attention:
    return read_attention(store, now=time.time())


def test_a_limit_that_is_full_while_others_run_needs_nobody(store: Store) -> None:
    hire(store, slots=1)
    submitted(store, work("1"), work("2"), NewTask(name="3", demand={"provider:p": 9}))
    assert admit(store, "w", now=time.time())
    for _ in range(4):
        store.write(lambda tx: penalise(tx, "p", now=time.time()))
    assert needs_of(store) == Attention(all=(), stuck=frozenset())


def test_what_is_spent_does_not_come_back_and_what_is_reserved_may(store: Store) -> None:
    hire(store)
    dollars = {"run:r/usd": 2_000_000}
    submitted(store, work("1", **dollars), work("2", **dollars), usd=3_000_000)
    [grant] = admit(store, "w", now=time.time())
    assert needs_of(store) == Attention(all=(), stuck=frozenset())
    spent = Outcome(state=State.DONE, spent={"run:r/usd": 1_500_000})
    finish(store, grant.fence, spent, now=time.time())
    needs = needs_of(store)
    assert needs.stuck == {"r"}
    assert [need.do for need in needs.of("r")] == [("weft limits set run:r/usd 3.50",)]
    set_limit(store, "run:r/usd", 3_500_000, now=time.time())
    assert needs_of(store).stuck == frozenset()
    assert admit(store, "w", now=time.time())


def test_a_host_that_has_less_is_no_place_and_one_that_has_more_is(store: Store) -> None:
    def arrive(worker: str, ram: int) -> None:
        new = NewWorker(id=worker, slots=1, host=worker, host_limits={"ram_mb": ram})
        register(store, new, now=time.time(), stated={})

    submitted(store, work("1", **{"host:@/ram_mb": 100}))
    assert needs_of(store).stuck == frozenset(), "nobody is there yet, and somebody may come"
    arrive("small", 50)
    assert needs_of(store).stuck == {"r"}
    arrive("large", 200)
    assert needs_of(store) == Attention(all=(), stuck=frozenset())


def test_an_agent_that_no_worker_runs_or_that_is_stopped_is_named(store: Store) -> None:
    agents = (AgentFile(name="b", source="b.md"),)
    register(store, NewWorker(id="w", slots=1, host="h", agents=agents), now=1.0, stated={})
    submitted(store, work("1", **{"agent:a": 1}))
    assert [need.do[0] for need in needs_of(store).of("r")] == ["weft agents"]
    hire(store, "able")
    assert needs_of(store).all == ()
    store.write(lambda tx: stop_agent(tx, "a", "not logged in", now=time.time()))
    needs = needs_of(store)
    assert needs.stuck == {"r"}
    assert needs.of("r")[0].do == ("weft agents resume a",)


def test_a_file_that_a_paused_task_of_another_run_holds_is_named(store: Store) -> None:
    hire(store)
    [first] = submitted(store, work("1", "a"), run="first").values()
    submitted(store, work("1", "a"))
    [grant] = admit_task(store, "w", first, now=time.time())
    pause(store, first, now=time.time())
    assert admit(store, "w", now=time.time()) == [], "it ran into the file"
    assert needs_of(store).stuck == frozenset(), "its agent is still at work"
    again = Outcome(state=State.READY, kind="crash", reason="It fell over.")
    finish(store, grant.fence, again, now=time.time())
    assert admit(store, "w", now=time.time()) == [], "the paused task keeps its file"
    needs = needs_of(store)
    assert needs.stuck == {"r", "first"}
    assert [need.do for need in needs.of("r")] == [("weft resume first/1",)]


def test_a_group_wider_than_any_worker_that_is_left_is_named(store: Store) -> None:
    hire(store, "wide", slots=3)
    group = [NewTask(name=n, agent="a", gang="g", demand={"worker:@": 1}) for n in "123"]
    submitted(store, *group)
    hire(store, "narrow", slots=2)
    assert needs_of(store) == Attention(all=(), stuck=frozenset())
    depart(store, "wide", now=time.time())
    needs = needs_of(store)
    assert needs.stuck == {"r"}
    assert "asks for 3 of worker:narrow" in needs.of("r")[0].text


def test_what_belongs_to_no_run_counts_too(store: Store) -> None:
    hire(store)
    submit(store, work("1"), repo="r", now=time.time())
    submitted(store, NewTask(name="1", agent=HUMAN, text="Agree?"))
    drain(store, now=time.time())
    needs = needs_of(store)
    assert needs.stuck == {"r"}
    assert (len(needs.of("")), len(needs.of("r"))) == (1, 2)
