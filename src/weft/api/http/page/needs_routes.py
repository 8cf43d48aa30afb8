"""The views of decisions and of present work."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from weft import bounds
from weft.api.http.page.html_answers import show
from weft.api.http.requests import look, parts_of
from weft.model import State
from weft.operations.identity import ADMIN, READ, Identity, has
from weft.page.markup import Html
from weft.page.needs_view import NeedsView, render_needs
from weft.page.now_view import GROUPS, PAGE, NowView, WorkRow, render_now
from weft.project.site import agent_names
from weft.runs.attention import count_decisions, list_decisions
from weft.runs.event_text import shorten_report
from weft.runs.outlook import predict_ends
from weft.store import Store
from weft.store.overview import AgentReport, TaskAtWork, list_latest_reports
from weft.store.probe import queue
from weft.store.runs import list_runs
from weft.store.summaries import WorkKey, list_unmet_needs, list_work, view_work
from weft.words import state_word

router = APIRouter(prefix="/page", include_in_schema=False)

_PROBED: Final = 50  # ready tasks whose waits are read

Word = Annotated[str, Query(max_length=200)]


@router.get("/needs")
async def needs(request: Request) -> Response:
    root = parts_of(request).project.root

    def view(store: Store, who: Identity, now: float) -> Html:
        decisions = list_decisions(store, now=now)
        runs = {} if decisions else _count_states(store)
        may_act = has(who, ADMIN)
        return render_needs(
            NeedsView(
                decisions=decisions,
                may_act=may_act,
                agents=agent_names(root) if may_act else (),
                runs=runs,
                ends=predict_ends(store, [run for run in runs if run], now=now),
                now=now,
            )
        )

    return await show(request, view)


@router.get("/count")
async def count(request: Request) -> Response:
    """The number of decisions, for the title of the browser's tab."""
    return await look(
        request,
        READ,
        lambda store, who, now: {"count": count_decisions(store, now=now)},
    )


def _count_states(store: Store) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {}
    for key in list_work(store):
        counts.setdefault(key.run or "", Counter())[key.state] += 1
    return {run: dict(count) for run, count in counts.items()}


@router.get("/now")
async def now(
    request: Request,
    q: Word = "",
    state: Word = "",
    run: Word = "",
    start: Annotated[int, Query(ge=0, le=bounds.NUMBER)] = 0,
) -> Response:
    def view(store: Store, who: Identity, now: float) -> Html:
        return render_now(read_now(store, q, state, run, start, now))

    return await show(request, view)


def read_now(store: Store, words: str, state: str, run: str, start: int, now: float) -> NowView:
    """Read the page of present work from `start` on."""
    keys = list_work(store, run=run or None, words=words)
    named = sorted(
        ((word_of(key), key.id) for key in keys), key=lambda pair: (GROUPS.index(pair[0]), pair[1])
    )
    wanted = [id for word, id in named if state in ("", word)]
    page = wanted[start : start + PAGE]
    words_of = {id: word for word, id in named}
    rows = {view.id: view for view in view_work(store, page)}
    unmet = list_unmet_needs(store, [id for id in page if words_of[id] == "waiting"])
    reports = list_latest_reports(store, [id for id in page if rows[id].started is not None])
    held = _ready_waits(store, now) if "ready" in words_of.values() else {}
    return NowView(
        rows=[
            _row(rows[id], words_of[id], reports.get(id), held.get(id) or _after(unmet.get(id, [])))
            for id in page
        ],
        counts=Counter(word for word, _ in named),
        runs=[listed.id for listed in list_runs(store) if listed.state != "ended"],
        run=run,
        state=state,
        words=words,
        start=start,
        more=start + PAGE if len(wanted) > start + PAGE else None,
        now=now,
    )


def word_of(key: WorkKey) -> str:
    """Return the group of a task."""
    return state_word(key.state, stage=key.stage, agent=key.agent, reason=key.reason)


def _ready_waits(store: Store, now: float) -> dict[int, str]:
    first, _ = queue(store, now=now, most=_PROBED)
    return {task.id: "; ".join(wait.text for wait in waits) for task, waits in first}


def _after(needs: list[str]) -> str:
    if not needs:
        return ""
    names = [name for name in needs if name]
    if not names:
        return "waits for the end of an earlier phase"
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"waits for {', '.join(names[:4])}{more}"


def _row(view: TaskAtWork, word: str, report: AgentReport | None, waits: str) -> WorkRow:
    current = report is not None and report.data.get("attempt") == view.attempt
    doing = ""
    if report is not None and current:
        texts = [shorten_report(event) for event in report.data.get("events", ())]
        doing = next((text for text in reversed(texts) if text), "")
    return WorkRow(
        task=view,
        word=word,
        doing=doing,
        heard=report.at if report is not None and current else None,
        waits=waits or (view.reason if view.state in (State.BLOCKED, State.PARKED) else ""),
    )
