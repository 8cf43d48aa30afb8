"""Records for views, with hostile text wherever a person, a plan or an agent may write."""

from __future__ import annotations

from msgspec.structs import replace

from weft.candidate_records import CheckVerdict, Entry, GateRows, Landing, MergeConflict
from weft.model import Attempt, Class, Limit, Priority, State, Task, TaskRequest, Wait
from weft.runs.attention import AttentionItem, Decision
from weft.runs.explanation import AtGate, Explanation, Reproduction
from weft.store.team_rows import EntrantView, StepView, TeamView

EVIL = "\"><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e&'<b>"
NOW = 1_800_000_000.0


def make_task(number: int = 1, state: State = State.RUNNING, **changes: object) -> Task:
    fields: dict[str, object] = {
        "id": number,
        "run": "r",
        "name": f"1.{number}",
        "repo": "/repo",
        "tenant": "default",
        "text": EVIL,
        "request": TaskRequest(title=f"Title {EVIL}"),
        "attached": {},
        "state": state,
        "since": NOW - 90,
        "reason": EVIL,
        "until": None,
        "klass": Class.STANDARD,
        "priority": Priority.NORMAL,
        "agent": "claude",
        "stage": "implement",
        "demand": {},
        "files": (EVIL,),
        "path_seconds": 600.0,
        "submitted": NOW - 100,
        "story": None,
        "gang": None,
        "pinned": None,
        "offered_to": None,
        "result": "",
    }
    return Task(**{**fields, **changes})  # type: ignore[arg-type]  # fields of several types


def make_attempt(number: int = 1, ended: float | None = None) -> Attempt:
    return Attempt(
        task=1,
        number=number,
        fence=number,
        worker=EVIL,
        agent="claude",
        stage="implement",
        started=NOW - 60,
        ended=ended,
        outcome=None if ended is None else EVIL,
        candidate="c" * 40,
        base="b" * 40,
        session=None,
        tokens=1200,
        micro_usd=250_000,
    )


def make_decision(kind: str, number: int = 1, state: State = State.BLOCKED) -> Decision:
    about = {"budget": "run:r/usd", "limit": "llm"}.get(kind, "r/1.1")
    with_task = kind in ("blocked", "asked", "question", "review", "ended", "worker")
    item = AttentionItem(
        subject=EVIL,
        text=EVIL,
        do=("weft ps",),
        runs=frozenset({"r"}),
        since=NOW - 300,
        kind=kind,
        task=number if with_task else None,
        about=about,
        enough=2_000_000,
        path_seconds=1200.0,
    )
    task = make_task(number, state) if with_task else None
    return Decision(item=item, task=task, behind=3)


ENTRY = Entry(
    id="e1",
    run="r",
    state="queued",
    looked_at=False,
    base=None,
    story=None,
    tasks=(1,),
    work=(("c", "b"),),
    needs=frozenset(),
    alone=False,
)


def make_verdict(passed: bool, number: int, tree: str = "t1") -> CheckVerdict:
    return CheckVerdict(
        base="b",
        combination=("e1",),
        purpose="land",
        tree=tree,
        check_id="check",
        commands=(("make", EVIL),),
        passed=passed,
        seconds=12.0,
        number=number,
    )


def make_gate(tree: str = "t1") -> GateRows:
    rejected = replace(ENTRY, id="e2", state="rejected", tasks=(2,))
    landed = replace(ENTRY, id="e3", state="landed", tasks=(3,))
    landing = Landing(
        run="r",
        sequence=1,
        old="o" * 40,
        new="n" * 40,
        tree=tree,
        entries=("e3",),
        commits=("n" * 40,),
        revision=1,
        every_commit=False,
        state="landed",
    )
    return GateRows(
        entries=(ENTRY, rejected, landed),
        verdicts=(make_verdict(True, 1), make_verdict(False, 2, "t2")),
        conflicts=(MergeConflict(base="b", entry="e2", after=(), report=EVIL),),
        landings=(landing,),
        rejected=(True,),
        revision=1,
        blocked=EVIL,
        ended=False,
    )


def make_explanation(state: State = State.RUNNING) -> Explanation:
    failed = make_verdict(False, 2)
    return Explanation(
        task=make_task(1, state),
        waits=(Wait(kind="file", subject=EVIL, text=EVIL),),
        obstacles=(EVIL,),
        place=None,
        gate=AtGate(
            entry=ENTRY,
            number=1,
            of=1,
            verdicts=(failed,),
            outputs={2: EVIL},
            flaky=frozenset({2}),
            conflicts=(MergeConflict(base="b", entry="e1", after=(), report=EVIL),),
            blocked="",
            names={"e1": EVIL},
            check=None,
            reproductions={2: Reproduction(command=EVIL, line=EVIL)},
        ),
        attempts=(make_attempt(1, NOW), make_attempt(2)),
        hops=(),
        holder=None,
        events=(),
        team=make_team(),
    )


def make_team(state: str = "undecided") -> TeamView:
    return TeamView(
        task=1,
        state=state,
        strategy=EVIL,
        size=2,
        winner=2 if state == "decided" else None,
        entrants=(make_entrant(1, ""), make_entrant(2, "c" * 40)),
        steps=(StepView(step=EVIL, left=(2,), out={"1": EVIL}),),
    )


def make_entrant(number: int, commit: str) -> EntrantView:
    return EntrantView(
        number=number,
        task=10 + number,
        name=EVIL,
        agent=EVIL,
        state="gating",
        result="green" if commit else "failed",
        report=EVIL,
        lines=5 if commit else 0,
        tests=(EVIL,),
        attempts=1,
        seconds=60.0,
        tokens=100,
        micro_usd=250_000,
        commit=commit,
        base="b" * 40,
    )


def make_limit(resource: str, *, used: int, capacity: int, owner: str | None = None) -> Limit:
    return Limit(resource=resource, capacity=capacity, effective=capacity, used=used, owner=owner)
