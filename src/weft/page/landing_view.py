"""The view of the gate: its queue, the checks under way, work sent back and landed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from weft.candidate_records import Entry, GateRows
from weft.formats import count, duration, first_line
from weft.page.act_forms import act_button, pick_run
from weft.page.markup import (
    Html,
    Part,
    article,
    dim,
    joined,
    link,
    since,
    state_tag,
    table,
    tag,
    tr,
)
from weft.store.check_orders import OpenCheck
from weft.words import entry_word


class LandingView(Struct, frozen=True, kw_only=True):
    run: str  # '': there is no run yet
    runs: Sequence[str] = ()
    gate: GateRows | None = None
    names: Mapping[int, str] = {}  # of tasks
    checks: Sequence[tuple[OpenCheck, str]] = ()  # under way, each with the end of its output
    outputs: Mapping[int, str] = {}  # of the latest failed checks, by number
    may_act: bool = False
    now: float = 0.0


def render_landing(view: LandingView) -> Html:
    gate = view.gate
    if gate is None:
        return article("Landing", dim("No run yet."))
    return article(
        "Landing",
        pick_run("landing", view.runs, view.run),
        _blocked(view, gate) if gate.blocked else None,
        tag("h2", "Under check"),
        _checks(view, gate),
        tag("h2", "Queue"),
        _queue(view, gate),
        tag("h2", "Sent back"),
        _sent_back(view, gate),
        tag("h2", "Landed"),
        _landed(view, gate),
        data_poll=bool(view.checks),
    )


def _blocked(view: LandingView, gate: GateRows) -> Html:
    command = f"weft resume {view.run}"
    act = act_button("resume", "Resume", command, {"name": view.run}, key="a")
    return tag(
        "div",
        tag("p", f"The gate needs you: {first_line(gate.blocked)}"),
        act if view.may_act else None,
        class_="card decision gate",
    )


def _checks(view: LandingView, gate: GateRows) -> Part:
    if not view.checks:
        return dim("No check is under way.")
    return [
        tag(
            "section",
            tag(
                "p",
                state_tag("testing", "gating"),
                " ",
                _names(view, gate, check.entries),
                " for ",
                since(check.since, view.now),
                f" on {check.host}" if check.host else "",
            ),
            tag("pre", output) if output else None,
            id=f"check-{check.fence}",
        )
        for check, output in view.checks
    ]


def _names(view: LandingView, gate: GateRows, entries: Sequence[str]) -> Html:
    known = {entry.id: entry for entry in gate.entries}
    parts: list[Part] = []
    for id in entries:
        entry = known.get(id)
        parts += [" + " if parts else None, id if entry is None else name_entry(view, entry)]
    return joined(parts or "a candidate")


def name_entry(view: LandingView, entry: Entry) -> Html:
    parts: list[Part] = []
    for task in entry.tasks:
        parts += [" + " if parts else None, link(f"task/{task}", view.names.get(task, str(task)))]
    return joined(parts)


def _queue(view: LandingView, gate: GateRows) -> Html:
    under = {entry for check, _ in view.checks for entry in check.entries}
    waiting = [entry for entry in gate.entries if entry.state in ("queued", "landing")]
    if not waiting:
        return dim("The queue is empty.")
    rows = [
        tr(
            str(number),
            name_entry(view, entry),
            state_tag(_word(entry, under), "gating" if entry.id in under else "waiting"),
            _after(view, gate, entry),
            id=f"entry-{entry.id}",
            data_row=True,
        )
        for number, entry in enumerate(waiting, 1)
    ]
    return table(("Place", "Work", "State", "Builds on"), rows, caption="The gate's queue")


def _word(entry: Entry, under: set[str]) -> str:
    return "testing" if entry.id in under else entry_word(entry.state)


def _after(view: LandingView, gate: GateRows, entry: Entry) -> Part:
    waiting = {row.id for row in gate.entries if row.state in ("queued", "landing")}
    needs = [id for id in entry.needs if id in waiting]
    return _names(view, gate, needs) if needs else ""


def _sent_back(view: LandingView, gate: GateRows) -> Part:
    rejected = [entry for entry in gate.entries if entry.state == "rejected"]
    if not rejected:
        return dim("Nothing was sent back.")
    return [
        tag(
            "details",
            tag("summary", name_entry(view, entry), " ", tag("span", why, class_="dim")),
            tag("pre", output[-16_000:]) if output else None,
            id=f"back-{entry.id}",
        )
        for entry in rejected[::-1][:50]
        for why, output in [_cause(view, gate, entry)]
    ]


def _cause(view: LandingView, gate: GateRows, entry: Entry) -> tuple[str, str]:
    conflict = next((row for row in gate.conflicts if row.entry == entry.id), None)
    if conflict is not None:
        return "does not merge", conflict.report
    for verdict in reversed(gate.verdicts):
        if entry.id in verdict.combination and not verdict.passed:
            output = view.outputs.get(verdict.number, "")
            return f"failed its check in {duration(verdict.seconds)}", output
    return "sent back by a reviewer", ""


def _landed(view: LandingView, gate: GateRows) -> Part:
    landed = [landing for landing in gate.landings if landing.state == "landed"]
    if not landed:
        return dim("Nothing has landed yet.")
    passed = {verdict.tree for verdict in gate.verdicts if verdict.passed}
    rows = [
        tr(
            str(landing.sequence),
            _names(view, gate, landing.entries),
            tag("code", landing.new[:12]),
            state_tag("tested = landed", "passed")
            if landing.tree in passed
            else state_tag("no verdict on this tree", "bad"),
            data_row=True,
        )
        for landing in landed[::-1][:100]
    ]
    heads = ("Number", "Work", "Commit", "Proof")
    return [
        tag(
            "p",
            f"{count(len(landed), 'landing')}; ",
            tag("code", f"weft verify {view.run}"),
            " proves them.",
        ),
        table(heads, rows, caption="Landings"),
    ]
