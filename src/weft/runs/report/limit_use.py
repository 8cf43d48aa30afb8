"""How much of each limit was in use while a run lasted. Pure: from leases and the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from weft.admission.capacity import is_consumable
from weft.model import RunHistory

_LEFT_OUT: Final = ("gate:", "agent:", "host:")
"""Not counted by the slot, or the same as another."""


class UseStep(Struct, frozen=True, kw_only=True):
    """From a moment on: in use by the run, and by everybody else."""

    at: float
    own: int
    others: int


class LimitUse(Struct, frozen=True, kw_only=True):
    """One limit over the time of a run, in seconds since its submission."""

    resource: str
    limits: tuple[tuple[float, int | None], ...]  # from when on; None: no limit
    steps: tuple[UseStep, ...]
    penalties: tuple[float, ...]  # when its provider was found to be busy
    peak: int
    average: float  # in use by the run, while it lasted

    @property
    def limit(self) -> int | None:
        """The highest it was."""
        return max((one for _, one in self.limits if one is not None), default=None)


def over_time(past: RunHistory, *, until: float) -> tuple[LimitUse, ...]:
    """Every limit that the run had use of, those of its own first."""
    names = {name for use in past.uses if use.run == past.run.id for name in use.amounts}
    kept = [one for one in names if not one.startswith(_LEFT_OUT) and not is_consumable(one)]
    return tuple(_capacity(past, one, until) for one in sorted(kept, key=_place))


def most_at_once(past: RunHistory, uses: tuple[LimitUse, ...]) -> int:
    """How many attempts the limits that all of them count against let run at a time."""
    own = [one for one in past.uses if one.run == past.run.id and one.lease.kind == "attempt"]
    shared = [
        one.limit
        for one in uses
        if one.limit is not None and all(one.resource in use.amounts for use in own)
    ]
    return min(shared, default=max((one.peak for one in uses), default=1))


def _place(resource: str) -> tuple[int, str]:
    families = ("run:", "stage:", "llm", "requests", "provider:", "worker:")
    found = [number for number, one in enumerate(families) if resource.startswith(one)]
    return (found[0] if found else len(families), resource)


def _capacity(past: RunHistory, resource: str, until: float) -> LimitUse:
    zero = past.run.submitted
    steps = tuple(_steps(past, resource, until))
    ends = [one.at for one in steps[1:]] + [until - zero]
    used = sum(one.own * (end - one.at) for one, end in zip(steps, ends, strict=True))
    provider = resource.removeprefix("provider:") if resource.startswith("provider:") else None
    return LimitUse(
        resource=resource,
        limits=tuple(_limits(past, resource)),
        steps=steps,
        penalties=tuple(
            one.at - zero
            for one in past.events
            if one.kind == "provider_penalised"
            and one.data["provider"] == provider
            and zero <= one.at <= until
        ),
        peak=max((one.own for one in steps), default=0),
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
    own = others = 0
    changes.sort()
    for number, (at, more, more_others) in enumerate(changes):
        own, others = own + more, others + more_others
        if number + 1 == len(changes) or changes[number + 1][0] > at:
            yield UseStep(at=at - zero, own=own, others=others)


def _limits(past: RunHistory, resource: str) -> Iterator[tuple[float, int | None]]:
    """What the log says of a limit; the table says only what it is now."""
    zero = past.run.submitted
    told: list[tuple[float, int | None]] = []
    for event in past.events:
        if event.kind == "run_submitted" and resource in event.data.get("limits", {}):
            told.append((event.at - zero, event.data["limits"][resource]))
        elif event.kind == "limit_set" and event.data["resource"] == resource:
            if not told:
                told.append((float("-inf"), event.data["before"]))
            told.append((event.at - zero, event.data["capacity"]))
        elif event.kind == "limit_dropped" and event.data["resource"] == resource:
            told.append((event.at - zero, None))
    earlier = [limit for at, limit in told if at <= 0]
    yield (0.0, earlier[-1] if earlier else past.limits.get(resource))
    yield from ((at, limit) for at, limit in told if at > 0)
