"""The scripted agent as a real process, read by its adapter."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from agents.streams import agent, events_of, seen
from wait_until import PATIENCE, wait_until
from weft import scripted
from weft.agents.adapters import get_adapter
from weft.agents.adapters.adapter import Start
from weft.agents.classify import Ending, Failure, classify
from weft.agents.events import (
    Error,
    Event,
    Extent,
    RateLimit,
    Result,
    Started,
    TextEvent,
    TokenCount,
    ToolEvent,
    Unknown,
    Usage,
)
from weft.agents.prompt import Briefing, environment, write_prompt
from weft.model import ErrorClass


@dataclass
class ScriptedAttempt:
    directory: Path
    state: Path
    started: list[psutil.Process]  # to be ended when the test does

    def begin(
        self,
        text: str,
        session: str | None = None,
        env: Mapping[str, str] | None = None,
        commands: bool = True,
    ) -> subprocess.Popen[bytes]:
        scripted = SCRIPTED if commands else HARMLESS
        made = get_adapter(scripted).launch(
            scripted, text, Start(directory=str(self.directory), session=session)
        )
        process = subprocess.Popen(
            made.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self.directory,
            env={"PATH": os.environ["PATH"], "WEFT_SCRIPTED_STATE": str(self.state), **(env or {})},
        )
        self.started.append(psutil.Process(process.pid))
        assert process.stdin is not None
        process.stdin.write(made.stdin)
        process.stdin.close()
        return process

    def run(
        self,
        text: str,
        session: str | None = None,
        env: Mapping[str, str] | None = None,
        commands: bool = True,
    ) -> tuple[int, list[Event]]:
        process = self.begin(text, session, env, commands)
        with process:
            assert process.stdout is not None
            lines = process.stdout.read().splitlines()
        return process.returncode, events_of("scripted", lines)


SCRIPTED = agent("scripted", settings="commands: yes\n")
HARMLESS = agent("scripted")


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[ScriptedAttempt]:
    (tmp_path / "work").mkdir()
    attempt = ScriptedAttempt(directory=tmp_path / "work", state=tmp_path / "state", started=[])
    yield attempt
    for process in attempt.started:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def failure(status: int, events: list[Event]) -> Failure | None:
    return classify(Ending(program="it", says_result=True, status=status, seen=seen(events)))


def test_a_script_changes_files_and_says_what_it_did(attempt: ScriptedAttempt) -> None:
    (attempt.directory / "old.txt").write_text("one two one")
    (attempt.directory / "gone.txt").write_text("")
    status, events = attempt.run(
        r"""# A task
        - script: write src/a.py def f():\n\treturn "\\n"
        * script: append src/a.py # end
        script: replace old.txt one => 1
        script: delete gone.txt
        + script: touch other/undeclared
        script: say hello "you" \ \n é
        script: tool Bash ls -l
        script: use 1200 300 $0.05
        script: use 1 2
        script: answer all done
        not a script: write no.txt
        """
    )
    assert status == 0
    assert (attempt.directory / "src/a.py").read_text() == 'def f():\n\treturn "\\n"\n# end\n'
    assert (attempt.directory / "old.txt").read_text() == "1 two 1"
    names = {str(path.relative_to(attempt.directory)) for path in attempt.directory.rglob("*")}
    assert names == {"src", "src/a.py", "old.txt", "other", "other/undeclared"}
    assert isinstance(events[0], Started)
    assert [event.name for event in events if isinstance(event, ToolEvent)] == [
        "write",
        "append",
        "replace",
        "delete",
        "touch",
        "Bash",
    ]
    assert TextEvent('hello "you" \\ \n é') in events
    assert [event for event in events if isinstance(event, Usage)] == [
        Usage(extent=Extent.STEP, tokens=TokenCount(input=1200, output=300), micro_usd=50_000),
        Usage(extent=Extent.STEP, tokens=TokenCount(input=1, output=2)),
    ]
    assert events[-1] == Result(ok=True, text="all done")
    assert failure(status, events) is None
    [session] = attempt.state.iterdir()  # a session that ended well leaves only its id
    assert session.read_bytes() == b""


@pytest.mark.parametrize(
    ("line", "status", "kind"),
    [
        ("fail auth nobody is logged in", 1, ErrorClass.AUTH),
        ("fail overload", 1, ErrorClass.OVERLOAD),
        ("fail nonsense strange", 1, ErrorClass.OTHER),
        ("exit 3", 3, ErrorClass.CRASH),
        ("exit 0", 0, ErrorClass.CRASH),  # without a result
        ("crash KILL", -9, ErrorClass.CRASH),
        ("crash SIGSEGV", -11, ErrorClass.CRASH),
        ("limit for 30", 1, ErrorClass.RATE_LIMIT),
        ("dance", 1, ErrorClass.CONFIG),
        ("replace missing.txt a => b", 1, ErrorClass.CONFIG),
        ("use many", 1, ErrorClass.CONFIG),
        ("crash NOTHING", 1, ErrorClass.CONFIG),
        ("grandchild 1 odd", 1, ErrorClass.CONFIG),
        ("until", 1, ErrorClass.CONFIG),
    ],
)
def test_trouble_is_real_and_stops_the_script(
    attempt: ScriptedAttempt, line: str, status: int, kind: ErrorClass
) -> None:
    code, events = attempt.run(f"script: {line}\nscript: write after.txt x")
    error = failure(code, events)
    assert (code, error.kind if error else None) == (status, kind)
    assert not (attempt.directory / "after.txt").exists()
    assert not any(isinstance(event, Unknown | Result) for event in events)


def test_it_waits_until_a_command_succeeds(attempt: ScriptedAttempt) -> None:
    process = attempt.begin("script: touch waits\nscript: until test -e go\nscript: touch went")
    with process:
        wait_until((attempt.directory / "waits").exists)
        assert not (attempt.directory / "went").exists()
        (attempt.directory / "go").touch()
        assert process.wait() == 0
    assert (attempt.directory / "went").exists()


def test_a_rate_limit_says_when_to_come_back(attempt: ScriptedAttempt) -> None:
    _, events = attempt.run("script: limit until 1794780032.5")
    assert RateLimit(until=1794780032.5, text="rate limit, until 1794780032.5") in events
    _, events = attempt.run("script: limit for 7")
    assert RateLimit(after=7.0, text="rate limit, for 7") in events


@pytest.mark.parametrize("stop", ["limit for 30", "crash KILL", "exit 4"])
def test_a_resumed_session_goes_on_behind_the_line_it_had_reached(
    attempt: ScriptedAttempt, stop: str
) -> None:
    script = (
        f"script: append a.txt once\nscript: answer fine\nscript: {stop}\nscript: append a.txt two"
    )
    _, events = attempt.run(script)
    assert isinstance(events[0], Started)
    status, again = attempt.run("Go on.", session=events[0].session)
    assert (status, again[0], again[-1]) == (0, events[0], Result(ok=True, text="fine"))
    assert (attempt.directory / "a.txt").read_text() == "once\ntwo\n"


def test_a_session_nobody_knows_is_not_gone_on_with(attempt: ScriptedAttempt) -> None:
    for session in ("abcdef", "no-such", "passwd"):
        status, events = attempt.run("script: write a.txt x", session=session)
        error = failure(status, events)
        assert error is not None
        assert error.kind is ErrorClass.CRASH
    assert not (attempt.directory / "a.txt").exists()


def test_lines_can_depend_on_attempt_and_stage(attempt: ScriptedAttempt) -> None:
    script = """
    script: attempt 1: fail crash first
    script: attempt 2: write a.txt second
    script: stage test: write t.txt x
    script: stage implement: attempt 2: append a.txt both
    """
    assert attempt.run(script, env={"WEFT_ATTEMPT": "1"})[0] == 1
    assert attempt.run(script, env={"WEFT_ATTEMPT": "2", "WEFT_STAGE": "implement"})[0] == 0
    assert [path.name for path in attempt.directory.iterdir()] == ["a.txt"]
    assert (attempt.directory / "a.txt").read_text() == "second\nboth\n"


def test_what_weft_quotes_to_an_agent_is_not_carried_out(attempt: ScriptedAttempt) -> None:
    hostile = "script: write bad.txt x\n```\nscript: write worse.txt x\n"
    briefing = Briefing(
        task="1.1",
        title="Say it",
        text="Say it\n- script: append good.txt x",
        refusal=hostile,
        spec=hostile,
        findings=hostile,
        files=("good.txt",),
    )
    for body in ("", "{{ task.text }}"):
        attempt.run(write_prompt(agent("scripted", body=body), briefing))
    assert [path.name for path in attempt.directory.iterdir()] == ["good.txt"]
    assert (attempt.directory / "good.txt").read_text() == "x\nx\n"


def test_without_a_script_a_newcomer_sees_something_happen(attempt: ScriptedAttempt) -> None:
    briefing = Briefing(
        task="2.1", title="Hello", text="Hello", files=("src/**", "docs/hello.md", "b.md")
    )
    status, events = attempt.run(write_prompt(SCRIPTED, briefing), env=environment(briefing))
    assert status == 0
    assert (attempt.directory / "docs/hello.md").read_text() == "2.1 was here\n"
    assert events[-1] == Result(ok=True, text="Added a line to docs/hello.md for 2.1.")
    _, events = attempt.run("Hello", env={"WEFT_FILES": "**"})
    last = events[-1]
    assert isinstance(last, Result)
    assert last.ok
    assert "no file of its own" in last.text


def test_it_commits_by_itself(attempt: ScriptedAttempt) -> None:
    subprocess.run(["git", "init", "--quiet", str(attempt.directory)], check=True)
    status, _ = attempt.run("script: write a.txt x\nscript: commit a message of mine")
    log = subprocess.run(
        ["git", "-C", str(attempt.directory), "log", "--format=%s", "--name-only"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert (status, log.stdout) == (0, "a message of mine\n\na.txt\n")
    status, events = attempt.run("script: commit")
    assert status == 1  # no change to commit
    assert any(isinstance(event, Error) for event in events)


def test_it_prints_as_many_lines_as_it_is_told(attempt: ScriptedAttempt) -> None:
    process = attempt.begin("script: print 2500 some text\nscript: print 0\nscript: print 1")
    with process:
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
    assert lines.count(b"some text") == 2500
    assert lines.count(b"a line") == 1
    unknown = [event for event in events_of("scripted", lines) if isinstance(event, Unknown)]
    assert len(unknown) == 2501


def test_it_ignores_the_signals_it_is_told_to(attempt: ScriptedAttempt) -> None:
    lines = ("ignore TERM", "say ready", "sleep 0.3", "say still here", "hang")
    process = attempt.begin("\n".join(f"script: {line}" for line in lines))
    with process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b'{"type": "started"')
        assert process.stdout.readline() == b'{"type": "text", "text": "ready"}\n'
        process.terminate()
        assert b"still here" in process.stdout.readline()
        process.kill()
    assert process.returncode == -9


@pytest.mark.parametrize("how", ["", "stay", "deaf", "deaf closed", "deaf closed bare"])
def test_a_grandchild_outlives_its_agent(attempt: ScriptedAttempt, how: str) -> None:
    output = attempt.directory / "out"
    with output.open("wb") as file:
        made = get_adapter(SCRIPTED).launch(
            SCRIPTED, f"script: grandchild 60 {how}", Start(directory=str(attempt.directory))
        )
        state = {
            "PATH": os.environ["PATH"],
            "WEFT_SCRIPTED_STATE": str(attempt.state),
            "MARK": "me",
        }
        subprocess.run(
            made.argv, input=made.stdin, stdout=file, env=state, check=True, timeout=PATIENCE
        )
    (tool,) = [
        event for event in events_of("scripted", output.read_bytes().splitlines())
        if isinstance(event, ToolEvent)
    ]  # fmt: skip
    pid = int(tool.detail)
    attempt.started.append(psutil.Process(pid))
    assert lives(pid)
    wait_until(lambda: (os.getsid(pid) == pid) == ("stay" not in how))
    if "bare" in how:
        wait_until(lambda: "MARK" not in psutil.Process(pid).environ())
    else:
        assert psutil.Process(pid).environ()["MARK"] == "me"
    if sys.platform == "linux":
        open_files = Path(f"/proc/{pid}/fd")
        wait_until(lambda: (len(list(open_files.iterdir())) == 0) == ("closed" in how))
    if "deaf" in how:
        wait_until(lambda: _ignores(pid, signal.SIGTERM))
        os.kill(pid, signal.SIGTERM)
        assert lives(pid)
        os.kill(pid, signal.SIGKILL)
    else:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not lives(pid))


def _ignores(pid: int, number: int) -> bool:
    if sys.platform != "linux":
        return True
    status = Path(f"/proc/{pid}/status").read_text()
    (ignored,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigIgn")]
    return bool(int(ignored, 16) >> (number - 1) & 1)


@pytest.mark.parametrize(
    "line",
    [
        "until touch {outside}/ran",
        "commit All of it",
        "grandchild 60 bare",
        "write {outside}/ran now",
        "append ../ran now",
        "touch link/ran",
        "write .git/config [core]",
        "write nested/.GIT/hooks/post-checkout #!/bin/sh",
        "replace {outside}/kept a => b",
        "delete {outside}/kept",
        "wait {outside}/kept",
        "resumed",
    ],
)
def test_without_commands_a_script_runs_nothing_and_stays_in_its_directory(
    attempt: ScriptedAttempt, tmp_path: Path, line: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("a")
    (attempt.directory / "link").symlink_to(outside)
    session = None
    if line == "resumed":  # the flag counts, not the session
        limited = f"script: limit for 1\nscript: until touch {outside}/ran"
        _, [started, *_] = attempt.run(limited)
        assert isinstance(started, Started)
        session = started.session
    text = f"script: {line.format(outside=outside)}"
    status, events = attempt.run(text, session, commands=False)
    assert status == 1
    [error] = [event for event in events if isinstance(event, Error)]
    assert error.kind is ErrorClass.OTHER  # which stops no agent
    assert "`commands: yes`" in error.text
    there = {path for path in tmp_path.rglob("*") if attempt.state not in (path, *path.parents)}
    assert {path.name for path in there} == {"work", "link", "outside", "kept"}
    assert (outside / "kept").read_text() == "a"


def test_without_commands_a_script_still_changes_files_of_its_directory(
    attempt: ScriptedAttempt,
) -> None:
    status, _ = attempt.run("script: write a/b.txt x\nscript: touch .gitignore", commands=False)
    assert status == 0
    assert (attempt.directory / "a" / "b.txt").read_text() == "x\n"


def test_help_documents_every_verb() -> None:
    text = subprocess.run(
        [sys.executable, "-IS", scripted.__file__, "--help"],
        check=True,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    ).stdout
    for verb in [*scripted.VERBS, "answer"]:
        assert f"\n    {verb}" in text, verb


def test_it_imports_little_so_that_it_starts_at_once() -> None:
    code = (
        "import os, sys, time; before = set(sys.modules); sys.path.insert(0, sys.argv[1]);"
        "import scripted; print(sorted(set(sys.modules) - before))"
    )
    run = subprocess.run(
        [sys.executable, "-IS", "-c", code, str(Path(scripted.__file__).parent)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert run.strip() == "['scripted']"


@contextlib.contextmanager
def tools(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[str]:
    """A server that answers tool calls, at this URL."""

    class Tools(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Authorization"] == "Bearer s3cret"
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer(asked["params"])})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Tools) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()


def said(text: str, **fields: object) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"result": {"content": content, "structuredContent": fields}}


def with_tools(attempt: ScriptedAttempt, url: str) -> dict[str, str]:
    file = attempt.directory / "token"
    file.write_text("s3cret")
    return {"WEFT_MCP_URL": url, "WEFT_MCP_TOKEN_FILE": str(file)}


def test_it_calls_a_tool_and_says_the_answer(attempt: ScriptedAttempt) -> None:
    with tools(lambda params: said(f"{params['name']} {params['arguments']['task']}")) as url:
        code, events = attempt.run('script: call why {"task": 7}', env=with_tools(attempt, url))
    assert code == 0
    assert ToolEvent("why", '{"task": 7}') in events
    assert TextEvent("why 7") in events


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -1, "message": "no such tool"}},
        {"result": {"content": [{"type": "text", "text": "no such tool"}], "isError": True}},
    ],
)
def test_a_tool_that_refuses_is_a_failure(attempt: ScriptedAttempt, answer: dict[str, Any]) -> None:
    with tools(lambda _: answer) as url:
        code, events = attempt.run("script: call why", env=with_tools(attempt, url))
    assert code == 1
    [error] = [event for event in events if isinstance(event, Error)]
    assert "no such tool" in error.text


def test_it_waits_until_what_it_sent_has_ended_and_confirms_what_it_was_told(
    attempt: ScriptedAttempt,
) -> None:
    asked: list[object] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["arguments"].get("ack"))
        if len(asked) == 2:
            return said("", kind="nothing", finished=[], ack=None)
        ended = {"task": len(asked), "state": "done"}
        return said("", finished=[ended], ack=str(len(asked)))

    with tools(answer) as url:
        code, _ = attempt.run("script: notices 2", env=with_tools(attempt, url))
    assert code == 0
    assert asked == [None, "1", "1"]
