"""The issue tracker alone: a real `bd` on disk that is slow, hangs, dies, or knows better."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beads_issues import Issues
from cases import each_case
from repositories import git
from store_helpers import go, hire
from wait_until import wait_until
from weft.errors import Refused, StaleFence
from weft.model import HUMAN, NewRun, NewTask, Outcome, State, TaskRequest
from weft.runs.progress import read_progress
from weft.store import Store, open_store
from weft.store.attempt_end import finish
from weft.store.attempt_reports import MOST_REPORTED, report_work
from weft.store.event_log import read_events
from weft.store.runs import submit_run
from weft.store.tasks import approve, cancel, reject, retry, skip
from weft.worker.projections import News
from weft.worker.projections.beads_program import (
    BLOCKED,
    CLOSED,
    IN_PROGRESS,
    OPEN,
    BeadsError,
    Shown,
    WantedStatus,
    changes,
    find_beads,
)
from weft.worker.projections.issue_tracker import IssueTracker, Pace
from weft.workspace.locks import Lock

PATIENT = Pace(call=60, rest=0.05)
HASTY = Pace(call=1.0, rest=0.05)
RUN = "r1"


@pytest.fixture
def issues(tmp_path: Path) -> Issues:
    return Issues(tmp_path / "bin")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'weft.db'}") as opened:
        yield opened


@pytest.fixture
def tracker(tmp_path: Path, issues: Issues, store: Store) -> Callable[..., IssueTracker]:
    git(tmp_path, "init", "-q")  # the scratch files of a call lie in the git directory

    def make(pace: Pace = PATIENT) -> IssueTracker:
        beads = find_beads(tmp_path / "issues.jsonl", {"PATH": str(issues.place)})
        assert beads is not None
        return IssueTracker(beads, store, RUN, lock=tmp_path / "beads.lock", pace=pace)

    return make


def news(store: Store) -> News:
    return News(progress=read_progress(store, RUN))


def submit(store: Store, *names: str) -> dict[str, int]:
    tasks = [NewTask(name=one, agent=HUMAN, request=TaskRequest(title=one)) for one in names]
    return submit_run(store, NewRun(id=RUN, repo="r", plan="p", base="b"), tasks, now=0)


CLAIM = ["update", "bd-1", "--claim", "--assignee", "weft"]
WAITS = WantedStatus(status=BLOCKED, note="Which\x00\n\ncolour?")
LANDED = WantedStatus(status=CLOSED, note="It failed.", reason="--force")


@each_case(
    ("shown", "wanted", "calls"),
    [
        (Shown(status=OPEN), WantedStatus(status=IN_PROGRESS), [CLAIM]),
        (Shown(), WantedStatus(status=IN_PROGRESS), [CLAIM]),
        (Shown(status=OPEN, assignee="weft"), WantedStatus(status=IN_PROGRESS), [CLAIM]),
        (Shown(status=IN_PROGRESS, assignee="weft"), WantedStatus(status=IN_PROGRESS), []),
        # Only an open issue can be claimed, and somebody else's stays theirs.
        (
            Shown(status=BLOCKED, assignee="weft"),
            WantedStatus(status=IN_PROGRESS),
            [["update", "bd-1", "--status", "in_progress", "--assignee", "weft"]],
        ),
        # The worker is the assignee, also after a worker before it.
        (
            Shown(status=OPEN),
            WantedStatus(status=IN_PROGRESS, assignee="weft/w"),
            [["update", "bd-1", "--claim", "--assignee", "weft/w"]],
        ),
        (
            Shown(status=OPEN, assignee="weft/v"),
            WantedStatus(status=IN_PROGRESS, assignee="weft/w"),
            [["update", "bd-1", "--status", "in_progress", "--assignee", "weft/w"]],
        ),
        (
            Shown(status=IN_PROGRESS, assignee="weft/v"),
            WantedStatus(status=IN_PROGRESS, assignee="weft/w"),
            [["update", "bd-1", "--assignee", "weft/w"]],
        ),
        (
            Shown(status=IN_PROGRESS, assignee="weft/w"),
            WantedStatus(status=OPEN),
            [["update", "bd-1", "--status", "open", "--assignee", ""]],
        ),
        (
            Shown(status=IN_PROGRESS, assignee="wefty"),
            WantedStatus(status=IN_PROGRESS, assignee="weft/w"),
            [],
        ),
        (
            Shown(status=OPEN, assignee="ann"),
            WantedStatus(status=IN_PROGRESS),
            [["update", "bd-1", "--status", "in_progress"]],
        ),
        # Notes of people stay; ours are replaced, and told once.
        (
            Shown(status=IN_PROGRESS, notes="- hers\n\nweft: old\nnews\n\nhis"),
            WAITS,
            [
                [
                    *["update", "bd-1", "--status", "blocked", "--notes"],
                    "- hers\n\nhis\n\nweft: Which\ncolour?",
                ]
            ],
        ),
        (Shown(status=BLOCKED, notes="weft: Which\ncolour?"), WAITS, []),
        (
            Shown(status=IN_PROGRESS, assignee="weft"),
            WantedStatus(status=OPEN, note="cancelled"),
            [
                [
                    "update",
                    "bd-1",
                    "--status",
                    "open",
                    "--assignee",
                    "",
                    "--notes",
                    "weft: cancelled",
                ]
            ],
        ),
        # What was not told before it landed is not lost.
        (
            Shown(status=IN_PROGRESS),
            LANDED,
            [
                ["update", "bd-1", "--notes", "weft: It failed."],
                ["close", "bd-1", "--reason", "--force"],
            ],
        ),
        (
            Shown(status=BLOCKED, notes="weft: It failed."),
            LANDED,
            [["close", "bd-1", "--reason", "--force"]],
        ),
        # What somebody closed stays closed.
        (Shown(status=CLOSED), LANDED, []),
        (Shown(status=CLOSED), WAITS, []),
    ],
)
def test_only_what_differs_is_told(
    shown: Shown, wanted: WantedStatus, calls: list[list[str]]
) -> None:
    assert changes("bd-1", shown, wanted) == calls


def test_only_the_last_change_is_told_and_only_once(
    issues: Issues, store: Store, tracker: Callable[..., IssueTracker]
) -> None:
    issues.add("bd-1")
    issues.add("bd-2", notes="mine")
    numbers = submit(store, "bd-1", "bd-2")
    following = tracker()
    approve(store, numbers["bd-1"], now=1)
    following.apply(news(store))
    cancel(store, numbers["bd-2"], now=2, reason="not now")
    skip(store, numbers["bd-2"], now=3, reason="never")
    following.apply(news(store))
    following.apply(news(store))
    assert issues.told() == [
        ["close", "bd-1", "--reason", "done in run weft/r1"],
        ["update", "bd-2", "--notes", "mine\n\nweft: never"],
    ]
    tracker().apply(news(store))
    assert len(issues.told()) == 2, "the next holder has nothing left to tell"


@pytest.mark.parametrize(
    ("trouble", "words"),
    [("hang", "took more than"), ("die", "exit -9"), ("gone", "cannot be started")],
)
def test_a_bd_that_hangs_dies_or_goes_is_reported_and_leaves_nothing_behind(
    issues: Issues,
    store: Store,
    tracker: Callable[..., IssueTracker],
    trouble: str,
    words: str,
) -> None:
    issues.add("bd-1")
    numbers = submit(store, "bd-1")
    approve(store, numbers["bd-1"], now=1)
    following = tracker(HASTY if trouble == "hang" else PATIENT)
    issues.trouble(trouble)
    if trouble == "gone":
        issues.remove_program()
    with pytest.raises(BeadsError) as behind:
        following.apply(news(store))
    child = issues.place / "child"
    wait_until(lambda: trouble != "hang" or (child.exists() and child.read_text()))
    assert "bd-1" in str(behind.value)
    assert words in str(behind.value)
    assert f"weft run --resume {RUN}" in str(behind.value)
    events = [one for one in read_events(store) if one.kind == "mirror_failed"]
    assert {(one.run, one.task) for one in events} == {(RUN, numbers["bd-1"])}
    if trouble == "hang":
        wait_until(lambda: is_gone(int(child.read_text())))


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False
    return state == "Z"


def test_what_bd_would_take_for_something_else_never_reaches_it(
    issues: Issues, store: Store, tracker: Callable[..., IssueTracker]
) -> None:
    """And the others are told all the same."""
    issues.add("bd-1")
    numbers = submit(store, "--help", "-q", "a b", "a\nb", "bd-1")
    for number in numbers.values():
        approve(store, number, now=1)
    tracker().apply(news(store))
    show, close = (call["arguments"] for call in issues.raw_calls())
    assert show == ["show", "bd-1", "--json"]
    assert close[:2] == ["close", "bd-1"]
    events = [one for one in read_events(store) if one.kind == "mirror_failed"]
    assert len(events) == 4


def test_an_issue_bd_does_not_know_is_in_nobodys_way(
    issues: Issues, store: Store, tracker: Callable[..., IssueTracker]
) -> None:
    issues.add("bd-1")
    numbers = submit(store, "bd-0", "bd-1")
    for number in numbers.values():
        approve(store, number, now=1)
    with pytest.raises(BeadsError, match=r"behind on 1 issues \(bd-0\)"):
        tracker().apply(news(store))
    assert issues.now("bd-1")["status"] == "closed"


def test_a_bd_that_says_nothing_of_an_issue_is_told_all_the_same(
    issues: Issues, store: Store, tracker: Callable[..., IssueTracker]
) -> None:
    issues.trouble("mute")
    approve(store, submit(store, "bd-1")["bd-1"], now=1)
    tracker().apply(news(store))
    assert issues.told() == [["close", "bd-1", "--reason", "done in run weft/r1"]]


def test_there_is_one_writer_at_a_time(
    tmp_path: Path, issues: Issues, store: Store, tracker: Callable[..., IssueTracker]
) -> None:
    issues.add("bd-1")
    approve(store, submit(store, "bd-1")["bd-1"], now=1)
    other = Lock(tmp_path / "beads.lock")
    assert other.attempt()
    following = tracker(Pace(call=0.2, rest=0))
    with pytest.raises(BeadsError, match="Another process"):
        following.apply(news(store))
    assert issues.raw_calls() == []
    other.close()
    tracker().apply(news(store))
    assert issues.now("bd-1")["status"] == "closed"


def test_a_tracker_that_another_worker_took_over_tells_nothing(
    issues: Issues, store: Store, tracker: Callable[..., IssueTracker]
) -> None:
    issues.add("bd-1")
    approve(store, submit(store, "bd-1")["bd-1"], now=1)

    def confirm() -> None:
        raise StaleFence

    with pytest.raises(StaleFence):
        tracker().apply(News(progress=read_progress(store, RUN), confirm=confirm))
    assert issues.raw_calls() == []


@pytest.mark.parametrize("holders", ["one", "several"])
def test_the_notes_of_an_issue_do_not_depend_on_its_holders(
    issues: Issues, store: Store, tracker: Callable[..., IssueTracker], holders: str
) -> None:
    """Weakened, a holder knows only the reasons that were logged after it took over."""
    issues.add("bd-1")
    numbers = submit_run(store, NewRun(id=RUN, repo="r"), [NewTask(name="bd-1")], now=0)
    hire(store)
    following, after = tracker(), 0

    def follow() -> None:
        nonlocal following, after
        events = read_events(store, after=after)
        following.apply(News(progress=read_progress(store, RUN), events=events))
        after = events[-1].id
        if holders == "several":
            following = tracker()

    finish(store, go(store).fence, Outcome(state=State.GATING), now=1)
    reject(store, numbers["bd-1"], "Too long.", now=2)
    follow()
    blocked = Outcome(state=State.BLOCKED, kind="other", reason="Which colour?")
    finish(store, go(store, now=3).fence, blocked, now=3)
    follow()
    assert issues.now("bd-1")["notes"] == "weft: Which colour?"
    retry(store, numbers["bd-1"], now=4)
    finish(store, go(store, now=5).fence, Outcome(state=State.DONE), now=6)
    follow()
    told = "worker w started 1970-01-01 00:00:05 UTC, took 1 s"
    assert issues.now("bd-1")["notes"] == f"weft: Too long.\n{told}"
    assert issues.now("bd-1")["status"] == "closed"


@pytest.mark.parametrize("holders", ["one", "several"])
def test_reported_work_becomes_a_single_issue_whoever_holds_the_tracker(
    issues: Issues, store: Store, tracker: Callable[..., IssueTracker], holders: str
) -> None:
    """Weakened, each holder creates the issue again."""
    issues.add("bd-1")
    submit_run(store, NewRun(id=RUN, repo="r"), [NewTask(name="bd-1")], now=0)
    hire(store)
    report_work(store, go(store).fence, "--force\nit", "Two\x00lines", now=1)
    issues.trouble("fail 9")
    with pytest.raises(BeadsError):
        tracker(HASTY).apply(news(store))
    issues.no_more_trouble()
    following = tracker()
    for _ in range(3):
        following.apply(news(store))
        following = tracker() if holders == "several" else following
    created = [call for call in issues.told() if call[0] == "create"]
    assert created == [
        [
            "create",
            "--title=--force it",
            "--description=Two lines",
            "--deps=discovered-from:bd-1",
        ]
    ]


def test_a_task_reports_a_bounded_number_of_pieces_of_work(store: Store) -> None:
    submit_run(store, NewRun(id=RUN, repo="r"), [NewTask(name="bd-1")], now=0)
    hire(store)
    fence = go(store).fence
    for number in range(MOST_REPORTED):
        report_work(store, fence, f"work {number}", "", now=1)
    with pytest.raises(Refused, match="at most"):
        report_work(store, fence, "one more", "", now=1)
