from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.streams import (
    FAILURES,
    LINES,
    STREAMS,
    events_of,
    last_errors,
    recorded,
    recorded_fully,
    seen,
)
from cases import each_case
from weft.agents.adapters import ADAPTERS
from weft.agents.classify import AttemptEnd, Ending, Failure, Stop, classify
from weft.agents.events import (
    Error,
    Event,
    RateLimit,
    Result,
    Retrying,
    TextEvent,
    ToolEvent,
    Unknown,
)
from weft.agents.failure_text import classify_text, sign_failure
from weft.agents.reset_time import parse_clock_time, parse_rate_limit
from weft.attempt.outcome import after_failure
from weft.config import Tuning
from weft.model import RESUMED, ErrorClass, State

AUTH, CONFIG, CRASH = ErrorClass.AUTH, ErrorClass.CONFIG, ErrorClass.CRASH
OTHER, OVERLOAD, TIMEOUT = ErrorClass.OTHER, ErrorClass.OVERLOAD, ErrorClass.TIMEOUT
RATE_LIMIT, STOPPED = ErrorClass.RATE_LIMIT, ErrorClass.STOPPED
CONTEXT = ErrorClass.CONTEXT


def end(
    events: list[Event],
    status: int | None = 0,
    stopped: Stop | None = None,
    errors: str = "",
    name: str = "claude",
) -> Failure | None:
    return classify(
        Ending(
            program=name,
            says_result=ADAPTERS[name].FACTS.says_result,
            exits=ADAPTERS[name].FACTS.exits,
            status=status,
            seen=seen(events),
            stopped=stopped,
            errors=errors,
        )
    )


def kind(failure: Failure | None) -> ErrorClass | None:
    return failure.kind if failure else None


RECORDED = sorted(
    {(file.parent.name, file.stem) for file in STREAMS.glob("*/*") if file.suffix != ".journal"}
)


@each_case(("name", "mode"), RECORDED)
def test_every_recorded_mode_has_its_class(name: str, mode: str) -> None:
    status, expected = FAILURES[name].get(mode, (0, None))
    stopped = Stop.IDLE if status < 0 else None
    failure = end(recorded_fully(name, mode), status, stopped, last_errors(name, mode), name)
    assert kind(failure) == expected


@each_case("status", [0, 1])
@each_case(("name", "mode"), RECORDED)
def test_the_output_decides_whatever_the_exit_code(name: str, mode: str, status: int) -> None:
    _, expected = FAILURES[name].get(mode, (0, None))
    failure = end(recorded_fully(name, mode), status, None, last_errors(name, mode), name)
    assert kind(failure) == expected


@each_case(("status", "expected"), [(41, AUTH), (52, CONFIG), (173, RATE_LIMIT), (247, OVERLOAD)])
def test_an_exit_code_with_a_meaning_tells_a_failure_that_words_do_not(
    status: int, expected: ErrorClass
) -> None:
    events: list[Event] = [Error(kind=None, text="no"), Result(ok=False, text="no")]
    assert kind(end(events, status, name="gemini")) is expected
    assert kind(end([], status, name="gemini")) is expected
    assert kind(end(events, 1, name="gemini")) is OTHER
    assert kind(end([Error(kind=AUTH, text="no")], status, name="gemini")) is AUTH


def test_failed_requests_are_counted_until_the_program_gets_on() -> None:
    failing: list[Event] = [Retrying(kind=OVERLOAD, text="cut"), RateLimit(text="slow down")]
    assert seen(failing).failed == 2
    assert seen([*failing, ToolEvent("bash"), *failing[:1]]).failed == 1
    assert ADAPTERS["opencode"].FACTS.tries is not None
    assert seen(recorded_fully("opencode", "quota")).failed >= ADAPTERS["opencode"].FACTS.tries


def test_a_program_that_retries_in_silence_tells_why_on_standard_error() -> None:
    read_error = ADAPTERS["gemini"].FACTS.read_error
    assert read_error is not None
    for status, expected in (429, RATE_LIMIT), (503, OVERLOAD):
        line = b"Attempt 3 failed with status %d. Retrying with backoff..." % status
        assert kind(end([*read_error(line)], -15, Stop.IDLE, name="gemini")) is expected


@each_case("name", ["claude", "codex", "opencode", "gemini"])
def test_a_stream_that_is_cut_off_is_never_a_success(name: str) -> None:
    events = recorded(name, "write")
    for length in range(len(events)):
        cut = events[:length]
        if not any(isinstance(event, Result) for event in cut):
            assert kind(end(cut, 0, name=name)) is CRASH
            assert kind(end(cut, -9, name=name)) is CRASH


UUID = "-ec53-4b8e-b8ef-484c80a4520d"
LIMIT = RateLimit(after=30, text="slow down")
TOO_MANY: list[Event] = [TextEvent("about authentication failures")] * 30


def test_an_end_that_weft_did_not_see_comes_with_what_to_do() -> None:
    failure = end([], None)
    assert failure is not None
    assert failure.kind is CRASH
    assert "`weft logs`" in failure.reason
    assert "`weft retry`" in failure.reason


CASES: list[tuple[list[Event], int | None, Stop | None, str, ErrorClass | None]] = [
    # The result that the program reports goes first.
    ([Result(ok=True)], 0, None, "", None),
    ([Result(ok=True)], 1, None, "", None),
    ([Result(ok=True)], -15, None, "", None),
    ([Result(ok=True), TextEvent("and another thing")], -9, None, "", CRASH),
    ([Result(ok=False, text="hm")], 0, None, "", OTHER),
    ([Result(ok=False, text="last status: 503")], 0, None, "", OVERLOAD),
    ([Error(kind=AUTH, text="no"), Result(ok=False)], 0, None, "", AUTH),
    ([Error(kind=None, text="model x1 not found"), Result(ok=False)], 1, None, "", CONFIG),
    ([Error(kind=OVERLOAD, text="x"), TextEvent("goes on"), Result(ok=True)], 0, None, "", None),
    ([Result(ok=True), Error(kind=AUTH, text="no")], 0, None, "", AUTH),
    ([Error(kind=None, text="")], 0, None, "", OTHER),
    ([Result(ok=False, text="")], 0, None, "", OTHER),
    # Then the trouble at its end.
    ([LIMIT], 1, None, "", RATE_LIMIT),
    ([LIMIT], 0, None, "", RATE_LIMIT),
    ([LIMIT], -9, None, "", CRASH),
    ([LIMIT, ToolEvent("Bash")], 1, None, "", CRASH),
    ([Retrying(kind=OVERLOAD, text="529")], 1, None, "", OVERLOAD),
    ([Retrying(kind=None, text="strange")], 1, None, "", OTHER),
    # Then how it died.
    ([], None, None, "", CRASH),
    ([], -11, None, "rate limit", CRASH),
    ([], -200, None, "", CRASH),
    ([], -9, None, "", CRASH),
    ([], 137, None, "rate limit", CRASH),
    ([], 127, None, "", CONFIG),
    ([], 126, None, "", CONFIG),
    ([], 0, None, "", CRASH),
    # Its words last.
    ([], 1, None, "Not logged in · Please run /login", AUTH),
    ([], 1, None, "--dangerously-skip-permissions cannot be used with root privileges", CONFIG),
    ([], 2, None, "error: unexpected argument '--foo' found", CONFIG),
    ([], 1, None, "TypeError: fetch failed", OVERLOAD),
    ([], 1, None, "429 Too Many Requests", RATE_LIMIT),
    ([], 1, None, "Traceback: boom", CRASH),
    ([], 0, None, "Invalid API key", AUTH),
    ([TextEvent("we test authentication")], 1, None, "", CRASH),
    (TOO_MANY, 1, None, "authentication failed", CRASH),
    (TOO_MANY, 1, None, "rate limit", RATE_LIMIT),
    # Stops by weft.
    ([], 0, Stop.WALL, "", TIMEOUT),
    ([TextEvent("working")], -15, Stop.IDLE, "", TIMEOUT),
    ([LIMIT], -15, Stop.IDLE, "", RATE_LIMIT),
    ([Retrying(kind=AUTH, text="401")], 143, Stop.WALL, "", AUTH),
    ([Retrying(kind=None, text="strange")], 143, Stop.WALL, "", TIMEOUT),
    ([Result(ok=True)], -15, Stop.IDLE, "", None),
    ([], -15, Stop.DOLLARS, "", OTHER),
    ([], -15, Stop.TOKENS, "", OTHER),
    ([Result(ok=True)], 0, Stop.CANCEL, "", STOPPED),
    ([Error(kind=AUTH, text="no")], 1, Stop.SHUTDOWN, "", STOPPED),
    ([], 0, Stop.LOST, "", STOPPED),
]


@each_case(("events", "status", "stopped", "errors", "expected"), CASES)
def test_how_it_ended(
    events: list[Event],
    status: int | None,
    stopped: Stop | None,
    errors: str,
    expected: ErrorClass | None,
) -> None:
    failure = end(events, status, stopped, errors)
    assert kind(failure) == expected
    if failure:
        assert failure.reason.endswith(".") or "It said: " in failure.reason


def test_an_error_without_words_is_no_success() -> None:
    """falsy-error-counted-as-success: the weakened variant asks whether there is any text."""
    events: list[Event] = [TextEvent("tried"), Error(kind=None, text=""), Result(ok=False, text="")]

    def weakened(end: AttemptEnd) -> bool:
        return not (end.result and end.result.text)

    assert weakened(seen(events))
    assert kind(end(events, 0)) is OTHER


def test_a_command_needs_exit_code_0_and_nothing_else() -> None:
    assert end([TextEvent("hello")], 0, name="command") is None
    assert kind(end([TextEvent("hello")], 3, name="command")) is CRASH
    assert kind(end([TextEvent("Invalid API key")], 1, name="command")) is AUTH


def test_a_rate_limit_keeps_the_time_that_was_last_stated() -> None:
    stated = RateLimit(until=1778565600.0)
    failure = end([stated, RateLimit(), Error(kind=RATE_LIMIT, text="no"), Result(ok=False)], 1)
    assert failure is not None
    assert (failure.until, failure.after) == (1778565600.0, None)
    moved_on = end([stated, TextEvent("works again"), RateLimit()], 1)
    assert moved_on is not None
    assert moved_on.until is None


@each_case(
    ("text", "expected"),
    [
        ("No conversation found with session ID: ab-1", CRASH),
        ("Error resuming session: No previous sessions found for this project.", CRASH),
        ("Prompt is too long", ErrorClass.CONTEXT),
        ("The input token count (9) exceeds the maximum number of tokens allowed (8).", CONTEXT),
    ],
)
def test_a_session_that_is_gone_or_full_is_not_gone_on_with(
    text: str, expected: ErrorClass
) -> None:
    failure = end([Error(kind=None, text=text), Result(ok=False, text=text)], 1)
    assert kind(failure) is expected
    assert expected not in RESUMED
    assert kind(end([], 42, None, text, "gemini")) is expected


@each_case(
    ("text", "until", "after"),
    [
        ("Claude AI usage limit reached|1749924000", 1749924000.0, None),
        ("Rate limit reached. Please try again in 1.898s.", None, 1.898),
        ("try again in 20ms", None, 0.02),
        ("Try again in 3 days 4 hours 5 minutes.", None, 273_900.0),
        ("Your quota will reset after 15h20m3s.", None, 55_203.0),
        ('"retryDelay": "34s"', None, 34.0),
        ("Retry-After: 7", None, 7.0),
        ("it was in 2019 after all", None, None),
        ("", None, None),
    ],
)
def test_the_reset_is_read_from_words(text: str, until: float | None, after: float | None) -> None:
    limit = parse_rate_limit(text)
    assert (limit.until, limit.after) == (until, pytest.approx(after) if after else after)
    assert limit.clock == ""


NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Try again at 5pm", "2026-11-16 22:00"),  # without a zone: the machine's, New York
        ("Try again at 5:03 PM.", "2026-11-16 22:03"),
        ("resets 3pm (UTC)", "2026-11-16 15:00"),
        ("Your limit will reset at 5 p.m. PST", "2026-11-17 01:00"),
        ("resets at 17:00 Europe/Berlin", "2026-11-16 16:00"),
        ("limit reached, resets 10:50pm (America/Los_Angeles)", "2026-11-17 06:50"),
        ("try again at 11:30 +01:00", "2026-11-17 10:30"),
        ("try again at 11:30 UTC", "2026-11-16 11:30"),  # it has just passed
        ("try again at 10:30 UTC", "2026-11-17 10:30"),  # it has passed
        ("Try again at Nov 17th, 2026 9:54 AM.", "2026-11-17 14:54"),
        ("resets on Feb 3 at 1am (UTC)", "2027-02-03 01:00"),
        ("available again at 2026-11-17T05:00:00Z", "2026-11-17 05:00"),
        ("try again 3 times", None),
        ("try again at 25:00", None),
        ("try again at 13pm", None),
        ("resets on Feb 31 at 1am", None),
    ],
)
def test_a_time_of_day_is_read_from_words(
    text: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        failure = end([Error(kind=RATE_LIMIT, text=text), Result(ok=False)], 1)
        assert failure is not None
        until = parse_clock_time(failure.clock, NOON)
    finally:
        monkeypatch.undo()
        time.tzset()
    read = None if until is None else datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%d %H:%M")
    assert read == expected


def test_a_task_is_parked_until_the_time_of_day_that_was_stated() -> None:
    failure = end([Error(kind=RATE_LIMIT, text="Try again at 5pm (UTC)"), Result(ok=False)], 1)
    assert failure is not None
    tuning = Tuning()
    parked = after_failure(failure, earlier=0, now=NOON, chance=0.0, tuning=tuning)
    assert (parked.state, parked.until) == (State.PARKED, NOON + 5 * 3600)


@each_case(
    ("text", "expected"),
    [
        ("unexpected status 401 Unauthorized: invalid x-api-key", AUTH),
        ("Your credit balance is too low", AUTH),
        ("You exceeded your current quota", RATE_LIMIT),
        ("Error 529 {'type': 'overloaded_error'}", OVERLOAD),
        ("The selected model is at capacity", ErrorClass.CAPACITY),
        ("stream disconnected before completion", OVERLOAD),
        ("stream disconnected before completion: reason: content_filter", OTHER),
        ("[API Error: terminated]", OVERLOAD),
        ("Missing environment variable: `OPENAI_API_KEY`.", AUTH),
        ("Please set an Auth method in your settings.json", AUTH),
        ("error: 3 tests failed, 404 passed", None),
        ("", None),
    ],
)
def test_words_are_the_last_resort(text: str, expected: ErrorClass | None) -> None:
    assert classify_text(text) == expected


@each_case(
    ("first", "second"),
    [
        ("timeout after 31 s at 2026-11-16T02:04:05Z", "timeout after 7 s at 2026-01-01T00:00:00Z"),
        ("request req_00251cda2b3e12d5 failed", "request req_00534da3af95e251 failed"),
        ("no such file /a/b/c/x.py", "no such file /tmp/y/x.py"),
        (f"id 1f5a6bdb{UUID}", f"id 2dd5b84f{UUID}"),
        ("url: http://127.0.0.1:4000/v1", "url: https://example.org/v2?x=1"),
        ("commit 1a2b3c4d   broke", "commit 9f8e7d6 broke"),
    ],
)
def test_the_same_failure_has_the_same_signature(first: str, second: str) -> None:
    assert sign_failure("crash", first) == sign_failure("crash", second)
    assert sign_failure("crash", first) != sign_failure("other", first)


def test_other_words_are_another_failure() -> None:
    assert sign_failure("crash", "index out of range") != sign_failure("crash", "key not found")
    assert sign_failure("crash", "cannot read a/x.py") != sign_failure(
        "crash", "cannot read a/y.py"
    )


@given(st.text(max_size=500))
def test_any_words_can_be_looked_at(text: str) -> None:
    classify_text(text)
    parse_clock_time(parse_rate_limit(text).clock or text, NOON)
    assert len(sign_failure("other", text)) <= 160


def test_hostile_words_are_looked_at_quickly() -> None:
    for text in ("a/" * 100_000, "again " * 50_000, "1" * 100_000, "in 1s " * 50_000, "_" * 99_999):
        classify_text(text)
        parse_rate_limit("try again in " + text)
        parse_rate_limit("try again at " + text)
        sign_failure("other", text)


@given(st.lists(st.sampled_from(LINES), max_size=12), st.sampled_from([0, 1, -9]))
def test_any_mixture_of_lines_has_an_ending(chosen: list[tuple[str, bytes]], status: int) -> None:
    for name in ADAPTERS:
        events = events_of(name, [line for _, line in chosen])
        failure = end(events, status, name=name)
        assert failure is None or (failure.reason and failure.signature)


def test_lines_that_mean_nothing_are_counted() -> None:
    assert seen([Unknown(3), TextEvent("x"), Unknown(9)]).unknown == 2
    assert AttemptEnd().unknown == 0


@pytest.mark.parametrize("status", [-9, 137])
def test_an_agent_that_the_kernel_killed_is_said_to_have_run_out_of_memory(status: int) -> None:
    """Status 137 comes from a box."""
    failure = end([], status)
    assert failure is not None
    assert "memory ran out" in failure.reason
    assert "`memory` under `sandbox:`" in failure.reason
