"""Health and readiness of this process, and metrics for Prometheus: the state of the store, and the
counts of this process.

The text format takes a few lines to write; a library would keep registries of numbers that the
store has already.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response

from weft.api.http import wire
from weft.api.http.auth import admit, bearer
from weft.api.http.openapi import answers
from weft.api.http.request_counts import Counts
from weft.api.http.requests import encode, in_thread, parts_of
from weft.errors import StoreError
from weft.model import Lease, Limit, Worker
from weft.operations.identity import READ
from weft.store import Store
from weft.store.database import Transaction
from weft.store.leases import list_open
from weft.store.limit_table import identity, list_limits
from weft.store.probe import WantedSlots, count_wanted
from weft.store.store import BoundStore
from weft.store.summaries import list_open_entries, total_costs
from weft.store.tasks import count_states
from weft.store.workers import list_workers

router = APIRouter(tags=["health"])

_SOON: Final = 2.0  # seconds in which a store answers that can be used


@router.get("/healthz", openapi_extra=answers(wire.Health))
async def healthz() -> Response:
    """This process is alive. Needs neither the store nor a token."""
    return Response(encode({"status": "ok"}), media_type="application/json")


@router.get("/readyz", openapi_extra=answers(wire.Health))
async def readyz(request: Request) -> Response:
    """The store answers with the schema of this weft; opening a store upgrades it."""
    parts = parts_of(request)
    with anyio.move_on_after(_SOON):
        await run_sync(identity, parts.store, abandon_on_cancel=True, limiter=parts.health_threads)
        return Response(encode({"status": "ok"}), media_type="application/json")
    raise StoreError


@router.get("/metrics", response_class=Response)
async def scrape(request: Request) -> Response:
    """For Prometheus."""
    parts, text = parts_of(request), bearer(request)

    def ask(tx: Transaction) -> MetricsSample:
        now = time.time()
        admit(tx, text, READ, now=now)
        return read_sample(BoundStore(parts.store, tx), now)

    seen = await in_thread(request, lambda: parts.store.read(ask))
    text = render_metrics(
        seen, parts.counts, followers=parts.stream.followers, dropped=parts.stream.dropped
    )
    return Response(text, media_type=MEDIA_TYPE)


MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class MetricsSample:
    """The numbers of the store at a moment."""

    tasks: Mapping[str, int]  # by state
    leases: tuple[Lease, ...]
    limits: tuple[Limit, ...]
    workers: tuple[Worker, ...]
    entries: Mapping[tuple[str, str], int]  # by run and state
    wanted: tuple[WantedSlots, ...]
    costs: Mapping[str, tuple[int, int]]  # tokens and micro-dollars, by agent


def read_sample(store: Store, now: float) -> MetricsSample:
    return MetricsSample(
        tasks={state.value: number for state, number in count_states(store).items()},
        leases=tuple(list_open(store)),
        limits=tuple(list_limits(store, now=now)),
        workers=tuple(list_workers(store, now=now)),
        entries=Counter((entry.run, entry.state) for entry in list_open_entries(store)),
        wanted=tuple(count_wanted(store, now=now)),
        costs=total_costs(store),
    )


def render_metrics(seen: MetricsSample, counts: Counts, *, followers: int, dropped: int) -> str:
    lines: list[str] = []
    for metric in _metrics(seen, counts, followers, dropped):
        lines += metric.lines()
    return "\n".join([*lines, ""])


@dataclass(frozen=True)
class _Metric:
    name: str
    kind: str  # gauge, counter
    help: str
    values: list[tuple[Labels, float]]

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.values:
            pairs = ",".join(f'{name}="{_escaped(str(label))}"' for name, label in labels.items())
            yield f"{self.name}{{{pairs}}} {value}" if pairs else f"{self.name} {value}"


def _metrics(
    seen: MetricsSample, counts: Counts, followers: int, dropped: int
) -> Iterator[_Metric]:
    leases = Counter((lease.kind, lease.state.value) for lease in seen.leases)
    workers = Counter((worker.kind.value, worker.status) for worker in seen.workers)
    yield _Metric(
        "weft_tasks", "gauge", "Tasks by state.", [({"state": s}, n) for s, n in seen.tasks.items()]
    )
    yield _Metric(
        "weft_queue_length",
        "gauge",
        "Tasks that could start, but for limits.",
        [({}, seen.tasks.get("ready", 0))],
    )
    yield _Metric(
        "weft_leases",
        "gauge",
        "Open leases by kind and state.",
        [({"kind": kind, "state": state}, n) for (kind, state), n in sorted(leases.items())],
    )
    for field in ("capacity", "effective", "used"):
        yield _Metric(
            f"weft_limit_{field}",
            "gauge",
            f"Of every limit: {field}.",
            [({"resource": limit.resource}, getattr(limit, field)) for limit in seen.limits],
        )
    yield _Metric(
        "weft_gate_entries",
        "gauge",
        "What asks to land, by run and state.",
        [({"run": run, "state": state}, n) for (run, state), n in sorted(seen.entries.items())],
    )
    yield _Metric(
        "weft_workers",
        "gauge",
        "Workers by kind and status.",
        [({"kind": kind, "status": status}, n) for (kind, status), n in sorted(workers.items())],
    )
    yield _Metric(
        "weft_wanted_slots",
        "gauge",
        "Tasks that could start now if a worker with these labels had slots.",
        [
            ({"repo": each.repo, "labels": ",".join(each.labels)}, each.slots)
            for each in seen.wanted
        ],
    )
    yield _Metric(
        "weft_tokens_total",
        "counter",
        "Tokens that attempts used, by agent.",
        [({"agent": agent}, tokens) for agent, (tokens, _) in seen.costs.items()],
    )
    yield _Metric(
        "weft_cost_usd_total",
        "counter",
        "Dollars that attempts cost, by agent.",
        [({"agent": agent}, usd / 1_000_000) for agent, (_, usd) in seen.costs.items()],
    )
    yield _Metric(
        "weft_http_requests_total",
        "counter",
        "Requests answered by this process.",
        [
            ({"method": method, "route": route, "status": status}, n)
            for (method, route, status), n in sorted(counts.requests.items())
        ],
    )
    yield _Metric(
        "weft_http_seconds_total",
        "counter",
        "Time from request to answer, long polls included.",
        [
            ({"method": method, "route": route}, round(seconds, 6))
            for (method, route), seconds in sorted(counts.seconds.items())
        ],
    )
    yield _Metric("weft_followers", "gauge", "Readers of the event stream.", [({}, followers)])
    yield _Metric(
        "weft_followers_dropped_total",
        "counter",
        "Readers of the event stream that did not keep up.",
        [({}, dropped)],
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
