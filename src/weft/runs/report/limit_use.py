"""The use of each limit during a run, computed from leases and the log. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from weft.admission.capacity import is_consumable
from weft.store.run_history import RunHistory

_LEFT_OUT: Final = ("gate:", "agent:", "host:")
"""Prefixes of limits that no slot counts, or that repeat another limit."""


class UseStep(Struct, frozen=True, kw_only=True):
    """Amounts in use from a moment on, by the run and by other runs."""

    at: float
    own: int
    other_runs: int


class LimitUse(Struct, frozen=True, kw_only=True):
    """A limit over the time of a run, in seconds since its submission."""

    resource: str
    limits: tuple[tuple[float, int | None], ...]  # (start, limit); None: no limit
    steps: tuple[UseStep, ...]
    penalties: tuple[float, ...]  # moments at which its provider was busy
    peak: int
    average: float  # amount in use by the run

    @property
    def limit(self) -> int | None:
        """Return the highest value of the limit."""
        return max((limit for _, limit in self.limits if limit is not None), default=None)


def over_time(past: RunHistory, *, until: float) -> tuple[LimitUse, ...]:
    """Return every limit that the run used, its own limits first."""
    names = {name for use in past.uses if use.run == past.run.id for name in use.amounts}
    kept = [name for name in names if not name.startswith(_LEFT_OUT) and not is_consumable(name)]
    return tuple(_limit_use(past, name, until) for name in sorted(kept, key=_place))


def most_at_once(past: RunHistory, uses: tuple[LimitUse, ...]) -> int:
    """Return the lowest limit that every attempt counts against."""
    own = [use for use in past.uses if use.run == past.run.id and use.lease.kind == "attempt"]
    shared = [
        limit.limit
        for limit in uses
        if limit.limit is not None and all(limit.resource in use.amounts for use in own)
    ]
    return min(shared, default=max((limit.peak for limit in uses), default=1))


def _place(resource: str) -> tuple[int, str]:
    families = ("run:", "stage:", "llm", "requests", "provider:", "worker:")
    family = (n for n, prefix in enumerate(families) if resource.startswith(prefix))
    return next(family, len(families)), resource


def _limit_use(past: RunHistory, resource: str, until: float) -> LimitUse:
    zero = past.run.submitted
    steps = tuple(_steps(past, resource, until))
    ends = [step.at for step in steps[1:]] + [until - zero]
    used = sum(step.own * (end - step.at) for step, end in zip(steps, ends, strict=True))
    provider = resource.removeprefix("provider:") if resource.startswith("provider:") else None
    return LimitUse(
        resource=resource,
        limits=tuple(_limits(past, resource)),
        steps=steps,
        penalties=tuple(
            event.at - zero
            for event in past.events
            if event.kind == "provider_penalised"
            and event.data["provider"] == provider
            and zero <= event.at <= until
        ),
        peak=max((step.own for step in steps), default=0),
        average=used / (until - zero) if until > zero else 0.0,
    )


def _steps(past: RunHistory, resource: str, until: float) -> Iterator[UseStep]:
    zero = past.run.submitted
    changes: list[tuple[float, int, int]] = []
    for use in past.uses:
        amount = use.amounts.get(resource, 0)
        if not amount:
            continue
        own = amount if use.run == past.run.id else 0
        changes.append((max(zero, use.lease.granted), own, amount - own))
        if use.lease.released is not None and use.lease.released <= until:
            changes.append((use.lease.released, -own, own - amount))
    own = rest = 0
    changes.sort()
    for number, (at, more, more_rest) in enumerate(changes):
        own, rest = own + more, rest + more_rest
        if number + 1 == len(changes) or changes[number + 1][0] > at:
            yield UseStep(at=at - zero, own=own, other_runs=rest)


def _limits(past: RunHistory, resource: str) -> Iterator[tuple[float, int | None]]:
    """Yield the changes of a limit from the log; the table has only its present value."""
    zero = past.run.submitted
    changes: list[tuple[float, int | None]] = []
    for event in past.events:
        if event.kind == "run_submitted" and resource in event.data.get("limits", {}):
            changes.append((event.at - zero, event.data["limits"][resource]))
        elif event.kind == "limit_set" and event.data["resource"] == resource:
            if not changes:
                changes.append((float("-inf"), event.data["before"]))
            changes.append((event.at - zero, event.data["capacity"]))
        elif event.kind == "limit_dropped" and event.data["resource"] == resource:
            changes.append((event.at - zero, None))
    earlier = [limit for at, limit in changes if at <= 0]
    yield (0.0, earlier[-1] if earlier else past.limits.get(resource))
    yield from ((at, limit) for at, limit in changes if at > 0)
