"""Whole attempts by programs that replay the recorded output of the real ones."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from agents.streams import FAILURES, STREAMS
from attempt.attempt_project import AttemptProject
from weft import workspace
from weft.model import ErrorClass, State, TaskRequest
from weft.store.limit_table import list_stopped
from weft.store.tasks import pause, resume
from weft.workspace.names import branch_ref

REPLAY = """\
#!{python}
import json, os, sys, time
from pathlib import Path

home = Path(os.environ["HOME"])
mode, *rest = (home / "modes").read_text().splitlines()
(home / "modes").write_text("\\n".join(rest))
stream, code = mode.split()
with (home / "starts").open("a") as file:
    print(json.dumps([sys.argv[1:], os.getcwd(), sys.stdin.read()]), file=file)
Path("a").write_text(stream)
for kind, out in ("jsonl", 1), ("err", 2):
    if os.path.exists(f"{{stream}}.{{kind}}"):
        os.write(out, Path(f"{{stream}}.{{kind}}").read_bytes())
if os.path.exists(f"{{stream}}.journal"):
    told = Path(os.environ["GEMINI_CLI_HOME"], ".gemini", "telemetry.json")
    told.write_bytes(Path(f"{{stream}}.journal").read_bytes())
if code == "-15":
    time.sleep(600)
sys.exit(int(code))
"""


class Replay:
    """A program that writes a file and then prints what a real one printed in a mode."""

    def __init__(self, project: AttemptProject, name: str) -> None:
        self.project = project
        self.name = name
        self.home = Path(project.environment["HOME"])
        self.program = self.home / "bin" / name
        self.program.parent.mkdir()
        self.program.write_text(REPLAY.format(python=sys.executable))
        self.program.chmod(0o755)
        project.environment["PATH"] = f"{self.program.parent}:{project.environment['PATH']}"
        project.agent("some", "sandbox: off\n", runs=name)  # it writes to its home, perhaps in /dev

    def play(self, *modes: str) -> int:
        self.queue(*modes)
        task = self.project.submit(text="Do it.", agent="some")
        self.project.serve(lambda: self._is_over(task))
        return task

    def queue(self, *modes: str) -> None:
        """Each mode for one start: the name of a recording, or the path of another one."""
        streams = [str(STREAMS / self.name / mode) for mode in modes]
        codes = [FAILURES[self.name].get(mode, (0, None))[0] for mode in modes]
        lines = [f"{stream} {code}" for stream, code in zip(streams, codes, strict=True)]
        (self.home / "modes").write_text("\n".join(lines))

    def starts(self) -> list[tuple[list[str], str, str]]:
        lines = (self.home / "starts").read_text().splitlines()
        return [(argv, cwd, prompt) for argv, cwd, prompt in map(json.loads, lines)]

    def _is_over(self, task: int) -> bool:
        stopped = list_stopped(self.project.store, now=time.time())
        return bool(stopped) or self.project.state(task) in (State.DONE, State.BLOCKED)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        (name, mode)
        for name, modes in FAILURES.items()
        for mode, (_, kind) in modes.items()
        if kind is ErrorClass.OTHER
    ],
)
def test_a_refusal_or_a_cut_off_answer_lands_nothing(
    project: AttemptProject, name: str, mode: str
) -> None:
    task = Replay(project, name).play(mode)
    assert project.state(task) is State.BLOCKED
    assert project.outcomes(task) == ["other"]


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("gemini", "bad_key"),
        ("gemini", "no_key"),
        ("gemini", "no_method"),
        ("codex", "no_key"),
        ("opencode", "quota"),
    ],
)
def test_a_bad_key_stops_the_agent_and_says_what_to_do(
    project: AttemptProject, name: str, mode: str
) -> None:
    task = Replay(project, name).play(mode)
    assert project.outcomes(task) == ["auth"]
    stopped = list_stopped(project.store, now=time.time())
    assert "log in, then resume this agent" in stopped["some"]


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("gemini", "cut"),
        ("gemini", "malformed"),
        ("claude", "malformed"),
        ("opencode", "cut"),
        ("opencode", "malformed"),
    ],
)
def test_a_stream_that_broke_is_tried_again(project: AttemptProject, name: str, mode: str) -> None:
    task = Replay(project, name).play(mode, "write")
    assert project.state(task) is State.DONE
    assert project.outcomes(task) == ["overload", "success"]


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_a_full_context_gets_one_new_session_and_then_a_person(
    project: AttemptProject, name: str
) -> None:
    replay = Replay(project, name)
    task = replay.play("context", "context")
    assert project.state(task) is State.BLOCKED
    assert project.outcomes(task) == ["context", "context"]
    assert "larger context" in project.task(task).reason
    assert not [argv for argv, _, _ in replay.starts() if "--resume" in argv or "resume" in argv]


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_an_answer_of_megabytes_is_a_success(project: AttemptProject, name: str) -> None:
    replay = Replay(project, name)
    stream = (STREAMS / name / "shell.jsonl").read_text()
    assert stream.count("shell finished") in (1, 2)
    huge = replay.home / "huge.jsonl"
    huge.write_text(stream.replace("shell finished", "y" * 3_000_000))
    task = replay.play(str(huge.with_suffix("")))
    assert project.state(task) is State.DONE
    assert project.outcomes(task) == ["success"]


@pytest.mark.parametrize(
    ("name", "reading", "goes_on"),
    [
        ("claude", "Read,Glob,Grep", "--resume"),
        ("codex", None, "resume"),
        ("gemini", "--policy", "--resume"),
        ("opencode", None, "-s"),
    ],
)
def test_a_planner_only_reads_and_its_next_round_goes_on_in_its_session(
    project: AttemptProject, name: str, reading: str | None, goes_on: str
) -> None:
    replay = Replay(project, name)
    replay.queue("write", "resume")
    first = project.submit(text="Plan it.", agent="some", files=(), stage="plan")
    project.serve(lambda: project.state(first) is State.DONE)
    again = TaskRequest(continues=first)
    second = project.submit(text="Again.", agent="some", files=(), stage="plan", request=again)
    project.serve(lambda: project.state(second) is State.DONE)
    assert project.task(first).result == "write finished", "its answer counts, its files do not"
    assert project.outcomes(first) == project.outcomes(second) == ["success"]
    (argv, before, _), (resumed, now, prompt) = replay.starts()
    assert before == now
    assert goes_on not in argv
    assert goes_on in resumed
    assert "Again." in prompt or any("Again." in word for word in resumed)
    assert reading is None or reading in argv


LIMITED = {
    "type": "error",
    "sessionID": "ses_1",
    "error": {
        "name": "APIError",
        "data": {
            "message": "slow down",
            "statusCode": 429,
            "responseHeaders": {"retry-after": "3600"},
        },
    },
}


@pytest.mark.parametrize("taken", [False, True])
def test_a_session_goes_on_only_in_the_workspace_where_it_began(
    project: AttemptProject, taken: bool
) -> None:
    replay = Replay(project, "opencode")
    stream = replay.home / "limited.jsonl"
    stream.write_text(json.dumps(LIMITED) + "\n")
    replay.queue(str(stream.with_suffix("")), "write")
    others = [
        workspace.prepare(project.root, branch_ref("do", f"other{number}", 1), "HEAD")
        for number in (1, 2)
    ]
    workspace.release(others.pop())
    task = project.submit(text="Do it.", agent="some")
    project.serve(lambda: project.state(task) is State.PARKED)
    assert pause(project.store, task, now=time.time())
    if taken:  # by another task
        others += [workspace.prepare(project.root, branch_ref("do", "third", 1), "HEAD")]
    else:  # the first one that is free is not the one where the session began
        workspace.release(others.pop())
    assert resume(project.store, task, now=time.time())
    project.serve()
    for other in others:
        workspace.release(other)
    (_, before, _), (argv, now, _) = replay.starts()
    assert (before == now) is not taken
    assert ("-s" in argv) is not taken
    assert project.outcomes(task) == ["rate_limit", "success"]


def test_gemini_gets_settings_of_its_own_and_leaves_the_users_alone(
    project: AttemptProject,
) -> None:
    replay = Replay(project, "gemini")
    own = replay.home / ".gemini"
    own.mkdir()
    (own / "settings.json").write_text('{"ui": {"theme": "x"}} // mine')
    (own / "oauth_creds.json").write_text("{}")
    task = replay.play("write")
    assert project.state(task) is State.DONE
    made = project.directory(task) / "home" / ".gemini"
    settings = json.loads((made / "settings.json").read_text())
    assert settings["ui"] == {"theme": "x"}
    assert (made / "oauth_creds.json").readlink() == own / "oauth_creds.json"
    assert (made / "tmp").readlink() == own / "tmp"
    assert (own / "settings.json").read_text() == '{"ui": {"theme": "x"}} // mine'
    assert sorted(path.name for path in own.iterdir()) == [
        "history",
        "oauth_creds.json",
        "settings.json",
        "tmp",
    ]


def test_a_prompt_that_begins_with_a_dash_reaches_every_program(project: AttemptProject) -> None:
    replay = Replay(project, "gemini")
    replay.queue("write")
    project.submit(text="--help me", agent="some")
    project.serve()
    [(argv, _, prompt)] = replay.starts()
    assert prompt.startswith("--help me")
    assert not [word for word in argv if "help me" in word]
