"""The view of limits: their use, the work that each holds back, and forms that change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from weft.admission.capacity import MOST, is_consumable
from weft.formats import clock, count, dollars
from weft.model import Limit, Task
from weft.page.act_forms import act_button, limit_form
from weft.page.markup import Html, Part, article, link, since, table, tag, tr
from weft.runs.host_list import HostStatus, describe_host_labels, describe_limit
from weft.words import full_label


class LimitsView(Struct, frozen=True, kw_only=True):
    limits: Sequence[Limit]
    held: Mapping[str, Sequence[tuple[Task, bool]]]  # ready tasks that wait for a limit, by limit;
    # True: it waits for nothing else
    runs: Mapping[str, str]  # unended runs with their states
    paused: frozenset[str]  # runs with paused tasks
    drained: float | None
    hosts: Sequence[HostStatus] = ()
    may_act: bool
    now: float


def render_limits(view: LimitsView) -> Html:
    rows = [
        _row(limit, view) for limit in sorted(view.limits, key=lambda limit: _rank(limit, view))
    ]
    return article(
        "Limits",
        _drain(view),
        table(
            ("Limit", "In use", "Set by", "Holds back", "One more would start", "Change"),
            rows,
            caption="Limits",
        ),
        *_hosts(view),
        tag("h2", "Runs") if view.runs else None,
        tag("ul", [_run(run, view) for run in view.runs], class_="decisions")
        if view.runs
        else None,
    )


def _hosts(view: LimitsView) -> tuple[Part, ...]:
    if not view.hosts:
        return ()
    header = (
        "Host",
        "Slots",
        "Memory (MB)",
        "Ports",
        "Takes",
        "Labels",
        "Last sign of life",
        "Lacks",
    )
    rows = [_host(status, view) for status in view.hosts]
    return tag("h2", "Hosts"), table(header, rows, caption="Hosts with workers")


def _host(status: HostStatus, view: LimitsView) -> Html:
    lacks = [f"{name}: {lack}" for name, lack in sorted(status.lacks.items())]
    return tr(
        tag("code", status.host),
        f"{status.slots.current} of {status.slots.max}",
        describe_limit(status, "ram_mb", view.limits),
        describe_limit(status, "port", view.limits),
        status.duties,
        describe_host_labels(status) if status.labels else "",
        [since(status.seen, view.now), " ago"],
        "; ".join(lacks),
        id=f"host-{status.host}",
        data_row=True,
    )


def _rank(limit: Limit, view: LimitsView) -> tuple[bool, bool, str]:
    full = limit.used >= limit.effective
    return not view.held.get(limit.resource), not full, limit.resource


def _drain(view: LimitsView) -> Part:
    if view.drained is not None:
        act = act_button("drain", "Start tasks again", "weft drain --undo", {"undo": True}, key="a")
        text = f"Drained since {clock(view.drained)}: no task starts."
    else:
        act = act_button("drain", "Drain", "weft drain", {"undo": False})
        text = "Tasks start as limits allow."
    return tag("div", tag("p", text), act if view.may_act else None, class_="acts spaced")


def _row(limit: Limit, view: LimitsView) -> Html:
    held = view.held.get(limit.resource, ())
    return tr(
        tag("code", limit.resource),
        _use(limit),
        limit.owner or tag("span", "this store", class_="dim"),
        count(len(held), "task") if held else "",
        _next(held),
        _change(limit) if view.may_act else None,
        id=f"limit-{limit.resource}",
        data_row=True,
        class_="held" if held else None,
    )


def _use(limit: Limit) -> list[Part]:
    lowered = ""
    if limit.capacity >= MOST and not limit.effective:
        return [f"{limit.used:,}; stopped"]
    if limit.effective < limit.capacity:
        lowered = f" (lowered from {_amount(limit, limit.capacity)})"
    text = f"{_amount(limit, limit.used)} of {_amount(limit, limit.effective)}{lowered}"
    bar = tag(
        "meter",
        value=min(limit.used, limit.effective),
        max=max(1, limit.effective),
        aria_label=f"{limit.resource}: {text}",
    )
    return [bar, " ", tag("span", text, class_="n")]


def _amount(limit: Limit, amount: int) -> str:
    return dollars(amount) if is_consumable(limit.resource) else f"{amount:,}"


def _next(held: Sequence[tuple[Task, bool]]) -> Part:
    first = next((task for task, only in held if only), None)
    return "" if first is None else link(f"task/{first.id}", full_label(first))


def _change(limit: Limit) -> Part:
    if limit.capacity >= MOST:
        return None  # no limit of its own: its agent is stopped
    if limit.owner is not None and not limit.owner.startswith("run:"):
        return tag("span", "change it there", class_="dim")
    return limit_form(limit.resource, limit.capacity, "Change…")


def _run(run: str, view: LimitsView) -> Html:
    if run in view.paused:
        act = act_button("resume", "Resume", f"weft resume {run}", {"name": run})
    else:
        act = act_button("pause", "Pause", f"weft pause {run}", {"name": run})
    return tag(
        "li",
        link(f"now?run={run}", run),
        f" {view.runs[run]}{', paused' if run in view.paused else ''}",
        tag("div", act, class_="acts") if view.may_act else None,
        id=f"run-{run}",
        data_row=True,
    )
