"""The views: records in, HTML out, without a browser or a server."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from cases import each_case
from html_pages import Tags
from page.page_records import (
    EVIL,
    NOW,
    make_attempt,
    make_decision,
    make_explanation,
    make_gate,
    make_limit,
    make_task,
    make_team,
)
from weft.attempt.outcome import refuse_outside
from weft.model import Capacity, State, TaskRequest, TeamRequest, Wait
from weft.page.files_view import FilesView, render_files
from weft.page.landing_view import LandingView, render_landing
from weft.page.limits_view import LimitsView, render_limits
from weft.page.markup import Html, escaped, tag
from weft.page.needs_view import NeedsView, find_wanted_files, render_needs
from weft.page.now_view import GROUPS, NowView, WorkRow, render_now
from weft.page.spend_view import RunSpend, SpendView, render_spend
from weft.page.task_view import TABS, LogMatch, LogWindow, TaskView, render_task, render_team
from weft.runs.host_list import HostStatus
from weft.runs.task_list import RunCost
from weft.store.check_orders import OpenCheck
from weft.store.messages import TaskMessage
from weft.store.overview import TaskAtWork
from weft.store.summaries import Cost, RunBudget, TaskClaim

KINDS = (
    *("drained", "gate", "agent", "budget", "limit", "worker"),
    *("paused", "blocked", "asked", "question", "review", "ended"),
)


def needs(may_act: bool) -> Html:
    return render_needs(
        NeedsView(
            decisions=[make_decision(kind, number) for number, kind in enumerate(KINDS, 1)],
            may_act=may_act,
            agents=["claude", EVIL],
            runs={},
            ends={},
            now=NOW,
        )
    )


def make_row(number: int, word: str, started: float | None = None, **changes: Any) -> WorkRow:
    work = TaskAtWork(
        id=number,
        run="r",
        name=f"1.{number}",
        title=EVIL,
        state="running",
        since=NOW - 60,
        reason=EVIL,
        until=None,
        agent=EVIL,
        stage="implement",
        worker=EVIL,
        attempt=2,
        started=started,
    )
    return WorkRow(task=work, word=word, **changes)


def now(may_act: bool) -> Html:
    rows = [make_row(number, word, waits=EVIL) for number, word in enumerate(GROUPS)]
    busy = make_row(99, "working", started=NOW - 30, doing=EVIL, heard=NOW - 5)
    view = NowView(rows=[*rows, busy], counts={}, runs=["r", EVIL], words=EVIL, more=200, now=NOW)
    return render_now(view)


def task(may_act: bool) -> Html:
    return Html("".join(_task(tab, may_act) for tab in TABS))


def _task(tab: str, may_act: bool, state: State = State.RUNNING) -> Html:
    return render_task(
        TaskView(
            explanation=make_explanation(state),
            tab=tab,
            attempt=make_attempt(2),
            messages=[TaskMessage(id=1, sender=EVIL, text=EVIL, at=NOW, delivered=NOW, heard=NOW)],
            log=LogWindow(first=5, lines=[EVIL, "x" * 10_000], total=9),
            words=EVIL,
            matches=[LogMatch(line=5, text=EVIL)],
            prompt=EVIL,
            event_lines=[(NOW, EVIL)],
            agents=[EVIL],
            may_act=may_act,
            may_write=may_act,
            now=NOW,
        )
    )


def landing(may_act: bool) -> Html:
    return render_landing(
        LandingView(
            run="r",
            runs=["r", EVIL],
            gate=make_gate(),
            names={1: EVIL, 2: EVIL, 3: EVIL},
            checks=[(OpenCheck(fence=1, since=NOW, entries=("e1", EVIL)), EVIL)],
            outputs={2: EVIL},
            may_act=may_act,
            now=NOW,
        )
    )


def limits(may_act: bool) -> Html:
    return render_limits(
        LimitsView(
            limits=[
                make_limit("llm", used=12, capacity=12),
                make_limit("run:r/usd", used=1_000_000, capacity=2_000_000, owner="run:r"),
                make_limit(f"agent:{EVIL}", used=0, capacity=1, owner=EVIL),
            ],
            held={"llm": [(make_task(7, name=EVIL), True)]},
            runs={"r": "under way", EVIL: EVIL},
            paused=frozenset({"r"}),
            drained=NOW,
            hosts=[
                HostStatus(
                    host=EVIL,
                    workers={EVIL: Capacity(current=1, max=4)},
                    slots=Capacity(current=1, max=4),
                    labels=(EVIL,),
                    worker_labels={EVIL: (EVIL,)},
                    gates=False,
                    checks=True,
                    seen=NOW - 3,
                    lacks={EVIL: EVIL},
                )
            ],
            may_act=may_act,
            now=NOW,
        )
    )


def test_the_limits_list_hosts_with_slots_checks_and_signs_of_life() -> None:
    text = limits(may_act=False)
    assert "<h2>Hosts</h2>" in text
    assert "<td>1 of 4</td>" in text
    assert "<td>checks</td>" in text
    assert ">3 s</time> ago" in text


def files(may_act: bool) -> Html:
    return render_files(
        FilesView(
            run="r",
            runs=["r", EVIL],
            held=[
                TaskClaim(
                    pattern=EVIL,
                    task=1,
                    run="r",
                    name=EVIL,
                    state="running",
                    stage=EVIL,
                    agent=EVIL,
                    reason=EVIL,
                )
            ],
            ready=[(make_task(name=EVIL), [Wait(kind="file", text=EVIL, subject=EVIL)])],
            hot=[(EVIL, 3, 1)],
            touched=[(make_task(name=EVIL, files=("b",)), ("a",))],
        )
    )


def spend(may_act: bool) -> Html:
    cost = Cost(task=1, name=EVIL, agent=EVIL, attempts=2, tokens=5, micro_usd=100_000)
    budget = RunBudget(cap=1_000_000, spent=100_000, reserved=50_000)
    of_run = RunCost(run="r", budget=budget, costs=(cost,))
    run = RunSpend(cost=of_run, state="running", retries=40_000, forecast=300_000)
    return render_spend(SpendView(runs=[run], after="r", may_act=may_act))


VIEWS = (needs, now, task, landing, limits, files, spend)


@each_case("view", VIEWS)
def test_hostile_text_stays_text_in_every_view(view: Callable[[bool], Html]) -> None:
    shown = view(True)
    page = Tags(shown)
    assert "script" not in page.seen
    assert "img" not in page.seen
    assert not [name for name in page.attributes if name.startswith("on") or name == "style"]
    assert "&lt;script&gt;" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


@each_case("view", VIEWS)
def test_a_reader_sees_no_form_that_acts(view: Callable[[bool], Html]) -> None:
    assert "data-act=" not in view(False)
    assert "data-bulk=" not in view(False)


@each_case("view", [needs, task, landing, limits, spend])
def test_each_act_shows_its_command(view: Callable[[bool], Html]) -> None:
    shown = view(True)
    forms = re.findall(r"<form[^>]*data-act=.*?</form>", shown, re.DOTALL)
    assert forms
    folded = re.findall(r"<summary.*?</summary>\s*<form[^>]*data-act", shown, re.DOTALL)
    named = [form for form in forms if 'class="cli">weft ' in form]
    assert len(named) + sum("weft " in text for text in folded) >= len(forms)


@each_case("view", VIEWS)
def test_every_field_has_a_label_and_no_id_is_used_twice(view: Callable[[bool], Html]) -> None:
    shown = view(True)
    if view is not task:  # six views in a row
        ids = re.findall(r' id="([^"]*)"', shown)
        assert len(ids) == len(set(ids))
    for field in re.finditer(r"<(input|select|textarea)\b[^>]*>", shown):
        before = shown[: field.start()]
        labelled = before.rfind("<label") > before.rfind("</label")
        assert labelled or "aria-label=" in field[0], field[0]


def test_a_view_is_the_same_text_until_a_record_changes() -> None:
    assert needs(True) == needs(True)
    assert now(True) == now(True)


def test_a_question_has_a_button_for_each_option_by_number() -> None:
    asked = replace(make_decision("asked"), options=("red", EVIL))
    view = NeedsView(decisions=[asked], may_act=True, agents=[], runs={}, ends={}, now=NOW)
    shown = render_needs(view)
    assert "weft answer r/1.1 1" in shown
    assert "weft answer r/1.1 2" in shown
    assert "<script" not in shown


def test_a_person_chooses_among_candidates_until_one_is_chosen() -> None:
    shown = render_team(make_team(), make_task(), may_choose=True)
    assert "weft review r/1.1 --choose 2" in shown
    assert "weft review r/1.1 --choose 1" not in shown  # without a candidate
    assert "--choose" not in render_team(make_team("decided"), make_task(), may_choose=True)
    assert "--choose" not in render_team(make_team(), make_task(), may_choose=False)


def test_an_undecided_team_leads_to_the_comparison() -> None:
    request = TaskRequest(title="t", team=TeamRequest(strategy="best-of", pipelines=()))
    decision = make_decision("blocked")
    decision = replace(decision, task=make_task(1, State.BLOCKED, request=request))
    view = NeedsView(decisions=[decision], may_act=True, agents=[], runs={}, ends={}, now=NOW)
    assert 'href="#/task/1/team"' in render_needs(view)


def test_files_that_an_agent_wanted_are_read_from_the_reason() -> None:
    reason = refuse_outside(["a.py", "b c.py"], ["x.py"]).reason
    assert find_wanted_files(reason) == ["a.py", "b c.py"]
    assert find_wanted_files("The tests failed.") == []


def test_markup_escapes_all_but_html() -> None:
    assert tag("p", "<b>", Html("<i>"), class_='a"b') == '<p class="a&quot;b">&lt;b&gt;<i></p>'
    assert escaped("a\x00\x1b[2Jb") == "a  [2Jb"
    assert tag("input", checked=True, disabled=False, value=None) == "<input checked>"


def test_a_log_line_is_cut_and_says_its_length() -> None:
    shown = _task("log", False)
    assert "(10,000 characters)" in shown
    assert "x" * 2_001 not in shown


def test_a_message_tells_its_way() -> None:
    shown = _task("messages", False)
    assert "delivered" in shown
    assert "heard" in shown


def test_without_decisions_the_view_tells_how_long_runs_take() -> None:
    view = NeedsView(
        decisions=[],
        may_act=True,
        agents=[],
        runs={"r": {"running": 2}},
        ends={"r": 120.0},
        now=NOW,
    )
    assert "about 2 min left" in render_needs(view)
    assert "2 working" in render_needs(view)


def test_landed_work_whose_tree_has_no_verdict_is_marked() -> None:
    for tree, mark in (("t1", "tested = landed"), ("t9", "no verdict on this tree")):
        shown = render_landing(LandingView(run="r", gate=make_gate(tree), now=NOW))
        assert mark in shown


def test_the_lines_of_a_text_stay_lines() -> None:
    assert tag("pre", "first\nsecond\x1b[2J") == "<pre>first\nsecond [2J</pre>"
