"""Reports: a history told to the store at stated times, and what is worked out from it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from html_pages import Tags
from store_helpers import hire, put, url
from weft.admission.capacity import attempt_demand
from weft.candidate_records import CheckVerdict
from weft.errors import InputError
from weft.model import Grant, NewRun, NewTask, Outcome, State, TaskRequest
from weft.page import report_page
from weft.runs import run_report as report
from weft.runs.report_records import RunReport, UseStep
from weft.runs.run_report import build_report
from weft.store import Store
from weft.store.admission import admit_task
from weft.store.attempt_end import finish
from weft.store.gate import complete, intend, record_verdict, reject
from weft.store.leases import release, take
from weft.store.limit_table import set_limit
from weft.store.runs import read_history, submit_run

__all__ = ["url"]  # the fixture: both kinds of store

RUN = "r"
HOSTILE = '</title></svg><script>alert("1")</script><img src=x onerror=y>\x1b[2J'
START = 100.0


def submit(store: Store, names: Sequence[str], **needs: Sequence[str]) -> dict[str, int]:
    demand = attempt_demand(run=RUN, stage="implement", agent="coder", provider=None)
    tasks = [
        NewTask(
            name=name,
            text=name,
            files=(f"{number}.py",),
            demand=demand,
            needs=tuple(needs.get(name, ())),
            agent="coder",
            stage="implement",
            request=TaskRequest(title=f"do {name}", plan="The plan"),
        )
        for number, name in enumerate(names)
    ]
    new = NewRun(id=RUN, repo="r", base="0" * 40, limits={"agents": 2})
    return submit_run(store, new, tasks, now=START)


def begin(store: Store, task: int, *, now: float) -> Grant:
    [grant] = admit_task(store, "w", task, now=START + now)
    return grant


def end(store: Store, grant: Grant, *, now: float, crash: str = "") -> None:
    outcome = (
        Outcome(state=State.READY, kind="crash", reason=crash, tokens=10, micro_usd=1000)
        if crash
        else Outcome(
            state=State.GATING,
            candidate=f"{grant.task}{grant.attempt}".rjust(40, "c"),
            base="0" * 40,
            tokens=100,
            micro_usd=20_000,
        )
    )
    finish(store, grant.fence, outcome, now=START + now)


def verdict(*entries: str, passed: bool, seconds: float = 1.5) -> CheckVerdict:
    return CheckVerdict(
        base="0" * 40,
        combination=entries,
        purpose="search",
        tree="t" * 40,
        check_id="c",
        commands=(),
        passed=passed,
        seconds=seconds,
    )


def eventful(store: Store, names: Sequence[str] = ("a", "b", "c")) -> RunReport:
    """Two at once, one of them in two tries; one lands, one is sent back, one still waits."""
    hire(store)
    a, b, _ = submit(store, names, **{names[2]: (names[0],)}).values()
    other = put(store, "elsewhere", now=START, demand={"requests": 3, "worker:@": 1}, agent="x")
    begin(store, other, now=1.5)
    first, second = begin(store, a, now=1), begin(store, b, now=2)
    end(store, second, now=3, crash=HOSTILE)
    third = begin(store, b, now=4)
    set_limit(store, f"run:{RUN}/agents", 1, now=START + 4.5)
    end(store, first, now=5)
    end(store, third, now=6)
    gate = take(store, "gate", RUN, {f"gate:{RUN}": 1}, worker="w", now=START + 6)
    assert gate is not None
    record_verdict(store, gate, RUN, verdict(f"{a}.1", passed=True), "", now=START + 8)
    record_verdict(store, gate, RUN, verdict(f"{b}.2", passed=False), HOSTILE, now=START + 8.5)
    reject(store, gate, RUN, [f"{a}.1", f"{b}.2"], "red", HOSTILE, now=START + 9)
    landing = intend(
        store, gate, RUN, old="0" * 40, new="d" * 40, tree="t" * 40, entries=[f"{a}.1"],
        commits=["d" * 40], revision=1,
        every_commit=False, now=START + 9.5,
    )  # fmt: skip
    complete(store, gate, RUN, landing.sequence, now=START + 10)
    begin(store, b, now=11)
    return build_report(read_history(store, RUN, now=START + 12), now=START + 12, hosts={})


def test_every_attempt_is_told_with_its_slot_outcome_and_fate(store: Store) -> None:
    told = eventful(store)
    assert [
        (one.task, one.number, one.slot, one.start, one.end, one.fate) for one in told.attempts
    ] == [
        ("a", 1, 0, 1.0, 5.0, "landed"),
        ("b", 1, 1, 2.0, 3.0, "crash"),
        ("b", 2, 1, 4.0, 6.0, "sent back"),
        ("b", 3, 0, 11.0, 12.0, "running"),
    ]
    assert [one.reason for one in told.attempts] == ["", HOSTILE, HOSTILE, ""]
    assert {one.name: (one.state, one.commit, one.needs) for one in told.tasks} == {
        "a": ("done", "d" * 40, ()),
        "b": ("running", None, ()),
        "c": ("ready", None, ("a",)),
    }


def test_the_gate_is_told_in_full(store: Store) -> None:
    told = eventful(store)
    assert [(one.tasks, one.start, one.end, one.passed, one.slot) for one in told.checks] == [
        (("a",), 6.5, 8.0, True, 0),
        (("b",), 7.0, 8.5, False, 1),
    ]
    assert [one.output for one in told.checks] == ["", HOSTILE]
    [sent_back] = told.rejections
    assert (sent_back.at, sent_back.tasks, sent_back.with_tasks) == (9.0, ("b",), ("a",))
    assert (sent_back.kind, sent_back.reason) == ("red", HOSTILE)
    [landed] = told.landings
    assert (landed.at, landed.tasks, landed.commits) == (10.0, ("a",), ("d" * 40,))


def test_figures_compare_the_run_with_what_was_possible(store: Store) -> None:
    told = eventful(store).figures
    assert (told.attempts, told.failed, told.checks, told.sent_back) == (4, 1, 2, 1)
    assert (told.landed, told.tasks, told.slots) == (1, 3, 2)
    assert (told.tokens, told.micro_usd) == (210, 41_000)
    assert told.makespan == 11.0
    assert told.sequential == 4 + 1 + 2 + 1.5, "and the check of the landed task"


def test_capacity_follows_leases_and_changes_of_limits(store: Store) -> None:
    told = {one.resource: one for one in eventful(store).capacity}
    agents = told[f"run:{RUN}/agents"]
    assert agents.limits == ((0.0, 2), (4.5, 1))
    assert [(one.at, one.own) for one in agents.steps] == [
        (1.0, 1), (2.0, 2), (3.0, 1), (4.0, 2), (5.0, 1), (6.0, 0), (11.0, 1),
    ]  # fmt: skip
    assert agents.peak == 2
    assert agents.average == pytest.approx((1 + 2 + 1 + 2 + 1 + 1) / 12)
    requests = told["requests"]
    assert requests.limits == ((0.0, 24),)
    assert requests.steps[:3] == (
        UseStep(at=1.0, own=1, other_runs=0),
        UseStep(at=1.5, own=1, other_runs=3),
        UseStep(at=2.0, own=2, other_runs=3),
    )
    assert not any(name.startswith("gate:") for name in told)


def test_a_page_escapes_all_that_others_said(store: Store) -> None:
    text = report_page.render(eventful(store, (HOSTILE, "b & <b>", "c")))
    tags = Tags(text)
    assert tags.seen.count("script") == 1, "only the page's own"
    assert not {"img", "link", "iframe", "b "} & set(tags.seen)
    assert not {"src", "href", "onerror"} & set(tags.attributes)
    assert "//" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" in text
    assert "\x1b" not in text
    assert "&lt;script&gt;alert(&quot;1&quot;)" in text


def test_a_run_that_has_not_begun_has_a_report(store: Store) -> None:
    submit(store, ["a"])
    told = build_report(read_history(store, RUN, now=START + 1), now=START + 1, hosts={})
    assert (told.attempts, told.figures.makespan) == ((), 0.0)
    assert "Nothing has run yet" in report_page.render(told)


def test_the_newest_run_is_reported_on_unless_one_is_named(store: Store) -> None:
    with pytest.raises(InputError, match="There is no run yet"):
        report.read(store, None)
    submit(store, ["a"])
    assert report.read(store, None).run == RUN
    with pytest.raises(InputError, match="no run 'other'"):
        report.read(store, "other")


def test_waits_have_their_times_and_causes(store: Store) -> None:
    waits = [(wait.task, wait.start, wait.end, wait.cause) for wait in eventful(store).waits]
    assert waits == [
        ("a", 0.0, 1.0, "room"),
        ("b", 0.0, 2.0, "room"),
        ("b", 3.0, 4.0, "room"),
        ("b", 9.0, 11.0, "room"),
        ("c", 10.0, 12.0, "room"),
    ]


def test_an_attempt_that_was_handed_back_is_no_failure(store: Store) -> None:
    hire(store)
    [task] = submit(store, ("a",)).values()
    release(store, begin(store, task, now=1).fence, now=START + 2, reason="its host left")
    end(store, begin(store, task, now=3), now=4, crash="it broke")
    history = read_history(store, RUN, now=START + 5)
    figures = build_report(history, hosts={}, now=START + 5).figures
    assert (figures.attempts, figures.failed) == (2, 1)
