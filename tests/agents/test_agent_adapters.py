from __future__ import annotations

import json
import signal
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agents.streams import FAILURES, LINES, RECORDED, agent, events_of, recorded
from cases import each_case
from weft.agents import json_lines, program_files
from weft.agents.adapters import ADAPTERS, get_adapter
from weft.agents.adapters.adapter import Facts, Launch, Mcp, ReaderState, Start, environment
from weft.agents.agent import PROGRAMS
from weft.agents.events import (
    Error,
    Event,
    Extent,
    RateLimit,
    Result,
    Retrying,
    Started,
    TextEvent,
    TokenCount,
    ToolEvent,
    Unknown,
    Usage,
)
from weft.agents.json_lines import shorten_line
from weft.errors import InputError
from weft.model import ErrorClass

CLAUDE = "-p --output-format stream-json --verbose --dangerously-skip-permissions"
CODEX = "--json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox"
OPENCODE = "--format json --auto --print-logs --log-level ERROR"
GEMINI = "--output-format stream-json --yolo --skip-trust"
START = Start(directory="/attempt")
MCP = Start(directory="/attempt", mcp=Mcp(url="http://127.0.0.1:1/mcp", token="s3cret"))


def launch(runs: str, settings: str = "", start: Start = START, prompt: str = "Do it.") -> Launch:
    some = agent(runs, settings=settings)
    return get_adapter(some).launch(some, prompt, start)


def test_there_is_an_adapter_for_every_program_a_file_may_name() -> None:
    assert set(ADAPTERS) == {*PROGRAMS, "command"}


@each_case(
    ("runs", "settings", "session", "argv"),
    [
        ("claude", "", None, f"claude {CLAUDE}"),
        (
            "claude",
            "model: opus\nargs: -x\n",
            "ab-1",
            f"claude {CLAUDE} --model opus --resume ab-1 -x",
        ),
        ("claude", "tools: [Read, Bash]\n", None, f"claude {CLAUDE} --tools Read,Bash"),
        ("codex", "model: o5\n", None, f"codex exec {CODEX} -m o5 -"),
        ("codex", "args: --search\n", "ab-1", f"codex exec resume {CODEX} --search ab-1 -"),
        ("opencode", "model: p/m\n", "ses_1", f"opencode run {OPENCODE} -m p/m -s ses_1"),
        (
            "gemini",
            "model: flash\nargs: -x\n",
            "ab-1",
            f"gemini {GEMINI} -m flash --resume ab-1 -x",
        ),
    ],
)
def test_programs_that_read_standard_input_get_the_prompt_there(
    runs: str, settings: str, session: str | None, argv: str
) -> None:
    made = launch(runs, settings, Start(directory="/attempt", session=session))
    assert " ".join(made.argv) == argv
    assert made.stdin == b"Do it."


@each_case("runs", ["claude", "codex", "opencode", "gemini"])
@each_case("prompt", ["--help", "- a list", "é" * 70_000])
def test_no_prompt_is_taken_for_an_option(runs: str, prompt: str) -> None:
    made = launch(runs, prompt=prompt)
    assert prompt not in made.argv
    assert made.stdin == prompt.encode()


def settings_of(made: Launch) -> dict[str, Any]:
    settings = json.loads(made.files["home/.gemini/settings.json"])
    assert isinstance(settings, dict)
    return settings


def test_gemini_gets_the_users_settings_completed_by_ours() -> None:
    own = b'{"ui": {"theme": "a//b"}, /* mine */ "mcpServers": {"x": {}}} // end'
    given = Start(directory="/attempt", mcp=MCP.mcp, settings=own)
    settings = settings_of(launch("gemini", start=given))
    assert settings["ui"] == {"theme": "a//b"}
    assert settings["mcpServers"]["x"] == {}
    assert settings["mcpServers"]["weft"]["headers"] == {"Authorization": "Bearer s3cret"}
    assert settings["telemetry"]["outfile"] == "/attempt/home/.gemini/telemetry.json"
    assert settings["telemetry"]["logPrompts"] is False
    assert "mcpServers" not in settings_of(launch("gemini"))


@each_case("own", [b"", b"[]", b"{", b"\xff", b'{"telemetry": 1}'])
def test_settings_that_cannot_be_read_are_no_obstacle(own: bytes) -> None:
    made = launch("gemini", start=Start(directory="/attempt", settings=own))
    assert settings_of(made)["telemetry"]["enabled"] is True


def test_telemetry_of_the_users_own_stays_as_it_is() -> None:
    own = b'{"telemetry": {"enabled": true, "target": "gcp"}}'
    made = launch("gemini", start=Start(directory="/attempt", settings=own))
    assert settings_of(made)["telemetry"] == {"enabled": True, "target": "gcp"}


def test_tools_of_the_agent_file_hide_all_others_from_gemini() -> None:
    made = launch("gemini", "tools: [read_file, glob]\n", MCP)
    assert made.argv[made.argv.index("--policy") + 1] == "/attempt/tools.toml"
    denied, *allowed = tomllib.loads(made.files["tools.toml"].decode())["rule"]
    assert (denied["toolName"], denied["decision"]) == ("*", "deny")
    assert [rule.get("mcpName") or rule["toolName"] for rule in allowed] == [
        ["read_file", "glob"],
        "weft",
    ]
    assert all(rule["priority"] > denied["priority"] for rule in allowed)
    assert "--policy" not in launch("gemini", start=MCP).argv


@each_case(
    ("runs", "argv", "stdin", "files"),
    [
        ("tool run", ("tool", "run"), b"{model}", {}),
        ("tool --say={prompt}", ("tool", "--say={model}"), b"", {}),
        ("tool -m {model} {other}", ("tool", "-m", "m1", "{other}"), b"{model}", {}),
        (
            "tool -f {prompt_file}",
            ("tool", "-f", "/attempt/prompt.md"),
            b"",
            {"prompt.md": b"{model}"},
        ),
    ],
)
def test_a_command_gets_the_prompt_where_its_line_says_and_nothing_in_it_is_a_place(
    runs: str, argv: tuple[str, ...], stdin: bytes, files: dict[str, bytes]
) -> None:
    made = launch(runs, "model: m1\n", prompt="{model}")
    assert (made.argv, made.stdin, made.files) == (argv, stdin, files)


def test_a_prompt_too_long_for_an_argument_is_refused_with_the_way_out() -> None:
    with pytest.raises(InputError, match=r"use \{prompt_file\}"):
        launch("tool {prompt}", prompt="x" * 200_000)


def test_claude_is_told_that_it_is_fenced_in_only_as_root() -> None:
    assert "IS_SANDBOX" not in launch("claude").environment
    as_root = launch("claude", start=Start(directory="/a", root=True)).environment
    assert as_root["IS_SANDBOX"] == "1"
    assert as_root["CLAUDE_CODE_MAX_RETRIES"] == "3"


def test_claude_is_told_its_budget_unless_its_own_count_would_start_higher() -> None:
    fresh = launch("claude", start=Start(directory="/a", micro_usd=2_500_000)).argv
    assert fresh[fresh.index("--max-budget-usd") + 1] == "2.500000"
    again = launch("claude", start=Start(directory="/a", micro_usd=1, session="x")).argv
    assert "--max-budget-usd" not in again


@each_case("runs", ["claude", "codex", "opencode", "gemini"])
def test_the_token_for_our_tools_is_on_no_command_line(runs: str) -> None:
    made = launch(runs, start=MCP)
    assert not any("s3cret" in word for word in made.argv)
    elsewhere = b"".join(made.files.values()).decode() + "".join(made.environment.values())
    assert "s3cret" in elsewhere
    assert "http://127.0.0.1:1/mcp" in elsewhere + "".join(made.argv)
    named = [name for name in made.files if any(name in word for word in made.argv)]
    assert named or not made.files or runs == "gemini"


@each_case("runs", ["scripted", "[tool, --x]"])
def test_a_program_without_a_setting_for_it_finds_the_token_in_a_file(runs: str) -> None:
    made = launch(runs, start=MCP)
    assert made.environment["WEFT_MCP_URL"] == "http://127.0.0.1:1/mcp"
    directory, _, name = made.environment["WEFT_MCP_TOKEN_FILE"].rpartition("/")
    assert (directory, made.files[name]) == ("/attempt", b"s3cret")
    assert not any("s3cret" in word for word in (*made.argv, *made.environment.values()))
    assert launch(runs, start=Start(directory="/a")).environment == {}


def test_no_record_of_a_start_shows_its_token() -> None:
    assert "s3cret" not in repr(MCP)


def test_the_user_goes_before_our_defaults_and_the_agent_file_before_both() -> None:
    some = agent("claude", settings="env: [KEPT, {FIXED: file}, ABSENT]\n")
    made = Launch(argv=(), environment={"OURS": "1", "BOTH": "ours", "FIXED": "ours"})
    facts = Facts(
        program="", first_signal=signal.SIGTERM, idle=1, says_result=True, passes=("BOTH",)
    )
    own = {"KEPT": "user", "BOTH": "user", "FIXED": "user", "SECRET": "no"}
    assert environment(some, made, facts, own) == {
        "OURS": "1",
        "BOTH": "user",
        "KEPT": "user",
        "FIXED": "file",
    }


def test_each_program_ends_by_the_signal_it_takes_well() -> None:
    first = {name: adapter.FACTS.first_signal for name, adapter in ADAPTERS.items()}
    assert {name for name, number in first.items() if number == signal.SIGINT} == {"codex"}
    assert ADAPTERS["gemini"].FACTS.idle > ADAPTERS["claude"].FACTS.idle  # silent while it retries


HOME = "/home/me"


@each_case(
    ("name", "variables", "directories"),
    [
        ("claude", {}, [".claude", ".local/state/claude", ".cache/claude-cli-nodejs"]),
        (
            "claude",
            {"CLAUDE_CONFIG_DIR": "/c", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": ""},
            ["/c", "/s/claude", ".cache/claude-cli-nodejs"],
        ),
        ("codex", {}, [".codex"]),
        ("codex", {"CODEX_HOME": "/x"}, ["/x"]),
        ("codex", {"CODEX_HOME": "in/the/workspace"}, []),
        ("gemini", {}, [".gemini"]),
        ("gemini", {"GEMINI_CLI_HOME": "/g"}, ["/g/.gemini"]),
        (
            "opencode",
            {"OPENCODE_CONFIG_DIR": "/o"},
            [
                ".config/opencode",
                ".local/share/opencode",
                ".local/state/opencode",
                ".cache/opencode",
                "/o",
            ],
        ),
        ("command", {"XDG_CONFIG_HOME": "/c"}, []),
        ("scripted", {}, []),
    ],
)
def test_a_program_has_places_of_its_own_and_no_others(
    name: str, variables: dict[str, str], directories: list[str]
) -> None:
    facts = ADAPTERS[name].FACTS
    below = [path if path.startswith("/") else f"{HOME}/{path}" for path in directories]
    assert program_files.find_all(facts.directories, {"HOME": HOME, **variables}) == below
    homeless = program_files.find_all((*facts.directories, *facts.files), variables)
    assert homeless == [path for path in directories if path.startswith("/")]


def test_paths_of_an_agent_file_are_below_home_or_absolute() -> None:
    assert program_files.expand(["~/a b", "/c"], {"HOME": HOME}) == ["/home/me/a b", "/c"]
    assert program_files.expand(["~/a b", "/c"], {}) == ["/c"]


@each_case("file", RECORDED)
def test_every_recorded_line_is_understood(file: Path) -> None:
    events = events_of(file.parent.name, file.read_bytes().splitlines())
    assert isinstance(events[0], Started)
    assert not [event for event in events if isinstance(event, Unknown)]
    if file.stem not in FAILURES[file.parent.name]:
        assert [event.ok for event in events if isinstance(event, Result)] == [True]


@each_case("name", ["claude", "codex", "opencode", "gemini"])
def test_text_tools_and_results_read_the_same_whoever_says_them(name: str) -> None:
    events = recorded(name, "shell")
    assert [event.text for event in events if isinstance(event, TextEvent)] == [
        "Step 1 of 1.",
        "shell finished",
    ]
    (tool,) = [event for event in events if isinstance(event, ToolEvent)]
    assert "echo shelled > lab_out.txt" in tool.detail
    (result,) = [event for event in events if isinstance(event, Result)]
    assert result == Result(ok=True, text="shell finished")
    (tool,) = [event for event in recorded(name, "write") if isinstance(event, ToolEvent)]
    assert "lab_out.txt" in tool.detail


def test_rate_limits_are_told_apart_from_other_trouble() -> None:
    claude = recorded("claude", "rate_limit")
    waits = [event.after for event in claude if isinstance(event, RateLimit)]
    assert waits == [1.0, 1.096]
    assert len([e for e in recorded("codex", "rate_limit") if isinstance(e, RateLimit)]) == 2
    auth = recorded("claude", "auth")
    assert [e.kind for e in auth if isinstance(e, Retrying | Error)] == [ErrorClass.AUTH] * 5
    assert not [event for event in auth if isinstance(event, RateLimit)]


PATIENCE = "You've hit your usage limit. Try again in 1 day 2 hours 3 minutes."


@each_case(
    ("name", "line", "event"),
    [
        (
            "claude",
            {
                "type": "rate_limit_event",
                "rate_limit_info": {"status": "rejected", "resetsAt": 1778565600},
            },
            RateLimit(until=1778565600.0, text="the plan's limit is reached"),
        ),
        (
            "claude",
            {
                "type": "rate_limit_event",
                "rate_limit_info": {"status": "allowed_warning", "resetsAt": 1},
            },
            None,
        ),
        (
            "claude",
            {"type": "system", "subtype": "api_retry", "error_status": 529, "error": "overloaded"},
            Retrying(kind=ErrorClass.OVERLOAD, text="overloaded"),
        ),
        (
            "claude",
            {"type": "result", "subtype": "error_max_turns", "is_error": False},
            Error(kind=None, text="error_max_turns"),
        ),
        ("codex", {"type": "error", "message": PATIENCE}, RateLimit(after=93780.0, text=PATIENCE)),
        (
            "codex",
            {"type": "item.completed", "item": {"id": "i", "type": "mcp_tool_call", "tool": "ask"}},
            ToolEvent("ask"),
        ),
        (
            "codex",
            {"type": "item.completed", "item": {"id": "i", "type": "reasoning", "text": "hm"}},
            None,
        ),
        (
            "opencode",
            {
                "type": "error",
                "error": {
                    "name": "APIError",
                    "data": {
                        "message": "slow down",
                        "statusCode": 429,
                        "responseHeaders": {"retry-after": "17"},
                    },
                },
            },
            RateLimit(after=17.0, text="slow down"),
        ),
        (
            "opencode",
            {"type": "error", "error": {"name": "ProviderAuthError"}},
            Error(kind=ErrorClass.AUTH, text="ProviderAuthError"),
        ),
        (
            "opencode",
            {"type": "step_finish", "part": {"reason": "tool-calls", "cost": 0.5}},
            Usage(extent=Extent.STEP, tokens=TokenCount(), micro_usd=500_000),
        ),
        (
            "codex",
            {"type": "item.completed", "item": {"type": "error", "message": "model not found"}},
            None,  # a warning: it goes on
        ),
        ("gemini", {"type": "error", "severity": "warning", "message": "slow"}, None),
        (
            "gemini",
            {"type": "error", "severity": "error", "message": "429, please retry in 34.07s"},
            Error(kind=None, text="429, please retry in 34.07s"),
        ),
        ("command", "not JSON", TextEvent('"not JSON"')),
    ],
)
def test_lines_the_recordings_do_not_have(name: str, line: object, event: Event | None) -> None:
    events, _ = ADAPTERS[name].read(json.dumps(line).encode(), ReaderState())
    assert (event in events) if event else (events == ())


def test_a_session_id_that_could_be_an_option_is_not_taken() -> None:
    for bad in ("--help", "-x", "a b", "", "x" * 500, "a\n"):
        line = json.dumps({"type": "thread.started", "thread_id": bad}).encode()
        assert ADAPTERS["codex"].read(line, ReaderState()) == ((), ReaderState())


def test_a_message_that_comes_in_parts_is_counted_once() -> None:
    events = recorded("claude", "write")
    steps = [e for e in events if isinstance(e, Usage) and e.extent is Extent.STEP]
    assert [step.tokens.input for step in steps if step.tokens] == [100, 100]


HOSTILE = [
    b"",
    b"\n",
    b"\0",
    b"\xff\xfe{}",
    b"[" * 200_000,
    b'{"type":' * 50_000,
    b'{"type":"result","total_cost_usd":NaN,"usage":{"input_tokens":Infinity}}',
    b'{"type":"result","total_cost_usd":1e999,"usage":{"input_tokens":-5}}',
    b'{"type":"usage","input":' + b"9" * 5_000 + b"}",
    b'{"type":"usage","input":' + b"9" * 300 + b"}",
    b'{"type":"text","text":"\\ud800\\u0000","part":{"text":"\\udfff"}}',
    b'{"type":["result"],"session_id":{}}',
    b'{"type":"message","role":"assistant","content":7,"delta":true}',
    b'{"type":"assistant","message":{"content":[{"type":"text","text":"' + b"x" * 2**20 + b'"}]}}',
    b"x" * (9 * 2**20),
    b'"just text"',
    b"null",
]


@each_case("name", sorted(ADAPTERS))
@each_case("line", HOSTILE)
def test_no_hostile_line_is_fatal(name: str, line: bytes) -> None:
    _read_safely(name, line, ReaderState())


@pytest.mark.parametrize("name", sorted(ADAPTERS))
@given(line=st.binary(max_size=200))
def test_no_bytes_are_fatal(name: str, line: bytes) -> None:
    _read_safely(name, line, ReaderState(text="so far", item="open"))


def _mutations(line: bytes) -> st.SearchStrategy[bytes]:
    places = st.integers(0, max(0, len(line) - 1))
    cut = places.map(lambda at: line[:at])
    doubled = places.map(lambda at: line[:at] + line + line[at:])
    changed = st.tuples(places, st.binary(min_size=1, max_size=4)).map(
        lambda made: line[: made[0]] + made[1] + line[made[0] + len(made[1]) :]
    )
    return st.one_of(cut, doubled, changed)


@given(
    chosen=st.sampled_from(LINES).flatmap(
        lambda pair: st.tuples(st.just(pair[0]), _mutations(pair[1]))
    )
)
def test_no_damaged_line_is_fatal(chosen: tuple[str, bytes]) -> None:
    _read_safely(*chosen, ReaderState())


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)


def _with_junk(value: object, draw: st.DataObject) -> object:
    """Return the document with a random value replaced by a value of another type."""
    if isinstance(value, dict) and value and draw.draw(st.integers(0, 9)):
        key = draw.draw(st.sampled_from(sorted(value)))
        return {**value, key: _with_junk(value[key], draw)}
    if isinstance(value, list) and value and draw.draw(st.integers(0, 9)):
        return [_with_junk(value[0], draw), *value[1:]]
    return draw.draw(JUNK)


@given(chosen=st.sampled_from(LINES), draw=st.data())
@example(chosen=("claude", b'{"type": "result", "errors": [1, null]}'), draw=None)
def test_no_field_of_the_wrong_type_is_fatal(
    chosen: tuple[str, bytes], draw: st.DataObject | None
) -> None:
    name, line = chosen
    document = json.loads(line)
    damaged = document if draw is None else _with_junk(document, draw)
    _read_safely(name, json.dumps(damaged).encode(), ReaderState())


def _read_safely(name: str, line: bytes, reading: ReaderState) -> None:
    events, _ = ADAPTERS[name].read(line, reading)
    for event in events:
        for value in _texts(event):
            value.encode("utf-8")
            assert "\0" not in value
        if isinstance(event, Usage) and event.tokens:
            assert 0 <= event.tokens.total < 2**60


def _texts(event: Event) -> list[str]:
    return [
        value
        for name in ("text", "name", "detail", "session")
        if isinstance(value := getattr(event, name, None), str)
    ]


@given(st.text(min_size=2_000, max_size=3_000), st.integers(0, 400), st.integers(0, 400))
def test_a_line_that_is_too_long_is_read_from_both_its_ends(
    text: str, before: int, after: int
) -> None:
    line = json.dumps({"type": "result", "result": text, "is_error": False}).encode()
    joined = shorten_line(line[: 900 + before], line[-(300 + after) :])
    record = json_lines.decode(joined)
    assert record is not None
    assert (record.get("type"), record.get("is_error")) == ("result", False)


def test_ends_that_do_not_fit_together_are_no_line() -> None:
    assert json_lines.decode(shorten_line(b'{"a": [', b'"]')) is None
