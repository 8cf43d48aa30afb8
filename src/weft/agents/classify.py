"""The end of an attempt: the class of failure, and a sentence for the user.

The structured output of a program counts first, then the way it was stopped or died, its words
last. Changes and scope are judged elsewhere, and so is the future of the task.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from weft.agents import events, failure_text, reset_time
from weft.agents.json_lines import clean, shorten
from weft.model import ErrorClass

_KILLED_IN_A_BOX: Final = 128 + signal.SIGKILL  # as bwrap, shells and container engines report it
_KILLED: Final = (
    "killed by SIGKILL, most likely because memory ran out; `memory` under `sandbox:` in its agent "
    "file bounds it"
)


class Stop(StrEnum):
    """The reason why weft ended an agent that had not ended by itself."""

    WALL = "wall"  # its time was up
    IDLE = "idle"  # it was silent for too long
    TOKENS = "tokens"
    DOLLARS = "dollars"
    CANCEL = "cancel"
    SHUTDOWN = "shutdown"
    LEAVE = "leave"  # its worker was told to leave
    LOST = "lost"  # its lease is no longer ours


class AttemptEnd(Struct, frozen=True, kw_only=True):
    """A summary of the events of an attempt, of constant size."""

    session: str = ""
    result: events.Result | None = None
    trouble: events.Error | events.RateLimit | events.Retrying | None = (
        None  # since it last got on with its work
    )
    limit: events.RateLimit | None = None  # the last limit with a time to come back
    last_text: str = ""
    worked: int = 0  # messages and tool calls
    failed: int = 0  # failed requests since the last progress
    unknown: int = 0  # lines without a known meaning

    def after(self, event: events.Event) -> AttemptEnd:
        match event:
            case events.Started():
                return replace(self, session=event.session)
            case events.TextEvent():
                return replace(self._working(), last_text=event.text)
            case events.ToolEvent():
                return self._working()
            case events.Result():
                return replace(self, result=event)
            case events.RateLimit():
                limit = event if event.says_when else self.limit
                return replace(self, trouble=event, limit=limit, failed=self.failed + 1)
            case events.Retrying():
                return replace(self, trouble=event, failed=self.failed + 1)
            case events.Error():
                return replace(self, trouble=event)
            case events.Unknown():
                return replace(self, unknown=self.unknown + 1)
        return self

    def _working(self) -> AttemptEnd:
        """Count progress; earlier trouble and an earlier result no longer stand."""
        return replace(
            self, worked=self.worked + 1, failed=0, trouble=None, limit=None, result=None
        )


class Ending(Struct, frozen=True, kw_only=True):
    """The end of an attempt's process."""

    program: str  # how to call it
    says_result: bool  # a fact of its adapter
    exits: Mapping[int, ErrorClass] = field(default_factory=dict)  # exit codes with a meaning
    status: int | None  # as Python gives it: negative for a signal; None: not known
    seen: AttemptEnd = field(default_factory=AttemptEnd)
    stopped: Stop | None = None
    errors: str = ""  # the end of its standard error


class Failure(Struct, frozen=True, kw_only=True):
    kind: ErrorClass
    reason: str  # the event and the remedy, in a sentence or two for people
    signature: str  # by which the same failure is recognised again
    until: float | None = None  # a rate limit: when to come back, since 1970
    after: float | None = None  # or so many seconds after it was said
    clock: str = ""  # words that name a time of day


_WEFT_ITSELF: Final = {
    Stop.CANCEL: "it was cancelled",
    Stop.SHUTDOWN: "weft shut down",
    Stop.LEAVE: "its host left",
    Stop.LOST: "its lease was lost",
}

_UNSEEN: Final = (
    "weft did not see how it ended, as after a restart of the machine or a kill of its wrapper; "
    "`weft logs` shows its last output, `weft retry` starts it again"
)
_SHORT_OUTPUT: Final = 20

_ADVICE: Final = {
    ErrorClass.RATE_LIMIT: "{program} is over its provider's rate limit; weft goes on later.",
    ErrorClass.OVERLOAD: "{program} cannot reach its provider just now; weft tries again.",
    ErrorClass.CAPACITY: "{program}'s model has no room just now; weft tries again.",
    ErrorClass.CONTEXT: (
        "The task no longer fits into the context of {program}'s model; split it, or choose a "
        "model with a larger context."
    ),
    ErrorClass.AUTH: "{program} is not logged in or not paid for; log in, then resume this agent.",
    ErrorClass.CONFIG: "{program} cannot run as it is set up; install it or edit the agent file.",
    ErrorClass.CRASH: "{program} ended unexpectedly.",
    ErrorClass.OTHER: "{program} gave up.",
}


def classify(ending: Ending) -> Failure | None:
    """Return the failure; None if the program ended well. A cancelled program never ended well."""
    if ending.stopped is not None and ending.stopped in _WEFT_ITSELF:
        return _ended_by_weft(ending.stopped)
    seen, status = ending.seen, ending.status
    if seen.result is not None and seen.result.ok and not isinstance(seen.trouble, events.Error):
        return None
    if ending.stopped is not None:
        return _stopped(ending, ending.stopped)
    if isinstance(seen.trouble, events.Error):
        return _failed(ending, _kind_of(seen.trouble, ending), seen.trouble.text)
    if seen.result is not None and not seen.result.ok:
        text = seen.result.text
        return _failed(ending, failure_text.classify_text(text) or _by_exit(ending), text)
    if status is None:
        return _failed(ending, ErrorClass.CRASH, _UNSEEN)
    if status in (-signal.SIGKILL, _KILLED_IN_A_BOX):
        return _failed(ending, ErrorClass.CRASH, _KILLED)
    if status < 0:
        return _failed(ending, ErrorClass.CRASH, f"killed by {_signal_name(-status)}")
    if status != 0:
        return _exited(ending, status)
    if ending.says_result:
        return _silent(ending)
    return None


def _ended_by_weft(stop: Stop) -> Failure:
    return Failure(kind=ErrorClass.STOPPED, reason=f"Stopped: {_WEFT_ITSELF[stop]}.", signature="")


def _stopped(ending: Ending, stop: Stop) -> Failure:
    if stop in (Stop.TOKENS, Stop.DOLLARS):
        reason = f"{ending.program} used up its budget of {stop}; raise it, then retry the task."
        return Failure(kind=ErrorClass.OTHER, reason=reason, signature=f"other: budget of {stop}")
    pending = ending.seen.trouble
    if pending is not None and (kind := _kind_of(pending, ending)) is not ErrorClass.OTHER:
        return _failed(ending, kind, pending.text)  # it was silent because it kept trying
    what = "took too long" if stop is Stop.WALL else "said nothing for too long"
    return Failure(
        kind=ErrorClass.TIMEOUT,
        reason=f"{ending.program} {what} and was stopped.",
        signature=f"timeout: {stop}",
    )


def _exited(ending: Ending, status: int) -> Failure:
    pending = ending.seen.trouble
    if pending is not None:
        return _failed(ending, _kind_of(pending, ending), pending.text)
    text = _last_lines(ending)
    if status in (126, 127):  # from a shell, and our wrapper, for a program that cannot start
        return _failed(ending, ErrorClass.CONFIG, text or "the program was not found")
    return _failed(ending, _by_last_lines(ending, text), text or f"exit code {status}")


def _by_last_lines(ending: Ending, text: str) -> ErrorClass:
    """Classify by the last lines, as the last resort.

    A program that has worked for a while is logged in and well set up, so words about logins on the
    screen come from its work.
    """
    kind = failure_text.classify_text(text) or ending.exits.get(
        ending.status or 0, ErrorClass.CRASH
    )
    set_up = ending.seen.worked > _SHORT_OUTPUT
    return ErrorClass.CRASH if set_up and kind in (ErrorClass.AUTH, ErrorClass.CONFIG) else kind


def _silent(ending: Ending) -> Failure:
    """Classify exit code 0 without a result, as after a signal or a refused request."""
    pending = ending.seen.trouble
    if pending is not None:
        return _failed(ending, _kind_of(pending, ending), pending.text)
    text = _last_lines(ending) if ending.errors else ""
    return _failed(ending, _by_last_lines(ending, text), text or "it ended without a result")


def _kind_of(
    pending: events.Error | events.RateLimit | events.Retrying, ending: Ending
) -> ErrorClass:
    if isinstance(pending, events.RateLimit):
        return ErrorClass.RATE_LIMIT
    return pending.kind or failure_text.classify_text(pending.text) or _by_exit(ending)


def _by_exit(ending: Ending) -> ErrorClass:
    return ending.exits.get(ending.status or 0, ErrorClass.OTHER)


def _failed(ending: Ending, kind: ErrorClass, text: str) -> Failure:
    advice = _ADVICE.get(kind, "{program} failed.").format(program=ending.program)
    text = shorten(clean(text))
    if kind in (ErrorClass.OTHER, ErrorClass.CONFIG) and failure_text.is_session_lost(text):
        kind = ErrorClass.CRASH  # a new session may well succeed
    failure = Failure(
        kind=kind,
        reason=f"{advice} It said: {text}" if text else advice,
        signature=failure_text.sign_failure(kind, text),
    )
    if kind is not ErrorClass.RATE_LIMIT:
        return failure
    limit = ending.seen.limit or reset_time.parse_rate_limit(text)
    return replace(failure, until=limit.until, after=limit.after, clock=limit.clock)


def _last_lines(ending: Ending) -> str:
    kept = [line.strip() for line in ending.errors[-4_000:].splitlines() if line.strip()]
    if kept or ending.says_result:  # the messages of such a program are about its work
        return "\n".join(kept[-10:])
    return ending.seen.last_text[-1_000:]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
