"""Commands on a hostile server print its text without harm, and write and run nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from forked_python import run_forked
from hostile_server import HostileAnswer, HostileServer, hostile_server
from hostile_values import make_value
from weft import __version__
from weft.api.http.routes.verb_routes import operations
from weft.cli import COMMANDS
from weft.config import Tuning
from weft.store.remote_calls import all_verbs, hints_of

TEXT = "../../{place}/evil\x1b]0;x\x07\x1b[2J\x9b31m\u202e\r--output={place}/evil $(touch evil)"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")

PS = (("ps",), ("ps", "--tasks"), ("ps", "--queue"))
COMPARE = ("1", "--compare", "--json")
CALLS: dict[str, list[tuple[str, ...]]] = {
    **{name: [(name,), (name, "--json")] for name in ("agents", "doctor", "limits", "runs")},
    **{name: [(name, "1"), (name, "1", "--json")] for name in ("why", "logs", "diff")},
    **{name: [(name, "1")] for name in ("retry", "skip", "cancel", "pause")},
    "ps": [(*words, *json) for words in PS for json in ((), ("--json",))],
    "open": [("open",), ("open", "--json"), ("open", "1")],
    "report": [("report", "--cost"), ("report", "--cost", "--json")],
    **{name: [(name,)] for name in ("verify", "land", "publish")},
    "answer": [("answer", "1", "yes"), ("answer", "1", "--yes"), ("answer", "1", "--no", "no")],
    "clean": [("clean", "--dry-run")],
    "drain": [("drain",)],
    "plan": [("plan", "check", "plan.md"), ("plan", "predict", "x"), ("plan", "show", "plan.md")],
    "recordings": [("recordings", "save", "1", "-o", "r"), ("recordings", "play", "r")],
    "resume": [("resume", "1")],
    "review": [("review", *words) for words in ((), ("1",), ("1", "--choose", "1"), COMPARE)],
    "send": [("send", "1", "x")],
    "token": [("token", "list"), ("token", "create", "x")],
    "worker": [("worker",), ("worker", "--token-file", "token")],
}
ALONE = {
    *("demo", "help", "init", "mcp", "serve"),
    *("do", "loop", "run", "watch"),
}
"""Commands that ask no server, and those that wait for as long as a server says."""


def answer_with(text: str) -> HostileServer:
    import_module("weft.api.http.app")  # with every verb

    def answer(request: HostileAnswer) -> None:
        path = request.path.partition("?")[0]
        kind, _, name = path.removeprefix("/v1/").partition("/")
        known = {**all_verbs(), **operations()}.get(name)
        if path == "/v1/verbs":
            facts = {"weft": __version__, "tuning": make_value(Tuning, text)}
            result: object = {**facts, "verbs": sorted(all_verbs()), "operations": []}
        elif known is not None:
            result = make_value(hints_of(known.function)["return"], text)
        else:
            result = 1
        shown = {"result": result} if kind in ("verbs", "operations", "changes") else result
        request.send(200, json.dumps(shown).encode())

    return HostileServer(answer)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("client")
    for name in ("home", "work"):
        (made / name).mkdir()
    (made / "work" / "plan.md").write_text("- [ ] x\n  <!-- files: a -->\n")
    (made / "work" / "token").write_text("secret-of-the-client")
    return made


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[HostileServer]:
    with hostile_server(answer_with(TEXT.format(place=place)).answer) as started:
        yield started


def ask(server: HostileServer, place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_forked(
        [sys.executable, "-m", "weft", "--server", server.url, *arguments],
        cwd=place / "work",
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HOME": str(place / "home"),
            "WEFT_TOKEN": "secret-of-the-client",
            "COLUMNS": "80",
        },
        timeout=60,
    )


def files_below(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_commands_understand_the_hostile_server(server: HostileServer, place: Path) -> None:
    """Otherwise the test below would see refused answers alone."""
    for arguments in (("agents",), ("ps", "--tasks"), ("runs",), ("why", "1"), ("review",)):
        done = ask(server, place, *arguments, "--json")
        assert "evil" in done.stdout, (arguments, done.stderr)


def test_every_command_is_covered() -> None:
    assert {*CALLS, *ALONE} == set(COMMANDS)


@pytest.mark.parametrize(
    "arguments", [call for calls in CALLS.values() for call in calls], ids=" ".join
)
def test_a_command_on_a_hostile_server_writes_nothing(
    server: HostileServer, place: Path, arguments: tuple[str, ...]
) -> None:
    before = files_below(place)
    done = ask(server, place, *arguments)
    assert "Traceback" not in done.stderr, done.stderr
    assert not CONTROLS.search(done.stdout), repr(done.stdout)
    assert not CONTROLS.search(done.stderr), repr(done.stderr)
    assert files_below(place) == before
