"""Whole attempts by programs that replay the recorded output of the real ones."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from agents.streams import FAILURES, STREAMS
from attempt.attempt_project import Ground
from weft import workspace
from weft.model import ErrorClass, State
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

    def __init__(self, ground: Ground, name: str) -> None:
        self.ground = ground
        self.name = name
        self.home = Path(ground.environment["HOME"])
        self.program = self.home / "bin" / name
        self.program.parent.mkdir()
        self.program.write_text(REPLAY.format(python=sys.executable))
        self.program.chmod(0o755)
        ground.environment["PATH"] = f"{self.program.parent}:{ground.environment['PATH']}"
        ground.agent("some", "sandbox: off\n", runs=name)  # it writes to its home, perhaps in /dev

    def play(self, *modes: str) -> int:
        self.queue(*modes)
        task = self.ground.submit(text="Do it.", agent="some")
        self.ground.serve(lambda: self._is_over(task))
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
        stopped = list_stopped(self.ground.store, now=time.time())
        return bool(stopped) or self.ground.state(task) in (State.DONE, State.BLOCKED)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        (name, mode)
        for name, modes in FAILURES.items()
        for mode, (_, kind) in modes.items()
        if kind is ErrorClass.OTHER
    ],
)
def test_a_refusal_or_a_cut_off_answer_lands_nothing(ground: Ground, name: str, mode: str) -> None:
    task = Replay(ground, name).play(mode)
    assert ground.state(task) is State.BLOCKED
    assert ground.outcomes(task) == ["other"]


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
    ground: Ground, name: str, mode: str
) -> None:
    task = Replay(ground, name).play(mode)
    assert ground.outcomes(task) == ["auth"]
    stopped = list_stopped(ground.store, now=time.time())
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
def test_a_stream_that_broke_is_tried_again(ground: Ground, name: str, mode: str) -> None:
    task = Replay(ground, name).play(mode, "write")
    assert ground.state(task) is State.DONE
    assert ground.outcomes(task) == ["overload", "success"]


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_a_full_context_gets_one_new_session_and_then_a_person(ground: Ground, name: str) -> None:
    replay = Replay(ground, name)
    task = replay.play("context", "context")
    assert ground.state(task) is State.BLOCKED
    assert ground.outcomes(task) == ["context", "context"]
    assert "larger context" in ground.task(task).reason
    assert not [argv for argv, _, _ in replay.starts() if "--resume" in argv or "resume" in argv]


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_an_answer_of_megabytes_is_a_success(ground: Ground, name: str) -> None:
    replay = Replay(ground, name)
    stream = (STREAMS / name / "shell.jsonl").read_text()
    assert stream.count("shell finished") in (1, 2)
    huge = replay.home / "huge.jsonl"
    huge.write_text(stream.replace("shell finished", "y" * 3_000_000))
    task = replay.play(str(huge.with_suffix("")))
    assert ground.state(task) is State.DONE
    assert ground.outcomes(task) == ["success"]


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
    ground: Ground, taken: bool
) -> None:
    replay = Replay(ground, "opencode")
    stream = replay.home / "limited.jsonl"
    stream.write_text(json.dumps(LIMITED) + "\n")
    replay.queue(str(stream.with_suffix("")), "write")
    others = [
        workspace.prepare(ground.root, branch_ref("do", f"other{number}", 1), "HEAD")
        for number in (1, 2)
    ]
    workspace.release(others.pop())
    task = ground.submit(text="Do it.", agent="some")
    ground.serve(lambda: ground.state(task) is State.PARKED)
    assert pause(ground.store, task, now=time.time())
    if taken:  # by another task
        others += [workspace.prepare(ground.root, branch_ref("do", "third", 1), "HEAD")]
    else:  # the first one that is free is not the one where the session began
        workspace.release(others.pop())
    assert resume(ground.store, task, now=time.time())
    ground.serve()
    for other in others:
        workspace.release(other)
    (_, before, _), (argv, now, _) = replay.starts()
    assert (before == now) is not taken
    assert ("-s" in argv) is not taken
    assert ground.outcomes(task) == ["rate_limit", "success"]


def test_gemini_gets_settings_of_its_own_and_leaves_the_users_alone(ground: Ground) -> None:
    replay = Replay(ground, "gemini")
    own = replay.home / ".gemini"
    own.mkdir()
    (own / "settings.json").write_text('{"ui": {"theme": "x"}} // mine')
    (own / "oauth_creds.json").write_text("{}")
    task = replay.play("write")
    assert ground.state(task) is State.DONE
    made = ground.directory(task) / "home" / ".gemini"
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


def test_a_prompt_that_begins_with_a_dash_reaches_every_program(ground: Ground) -> None:
    replay = Replay(ground, "gemini")
    replay.queue("write")
    ground.submit(text="--help me", agent="some")
    ground.serve()
    [(argv, _, prompt)] = replay.starts()
    assert prompt.startswith("--help me")
    assert not [word for word in argv if "help me" in word]
