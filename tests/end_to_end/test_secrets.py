"""What an agent or a check knows and prints is in nothing that weft keeps, shows or hands on."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import pytest

from attempt.attempt_project import AttemptProject
from databases import look
from forked_python import run_forked
from mcp_project import ServedProject, made_in
from repositories import git
from wait_until import PATIENCE, wait_until
from weft.model import State
from weft.operations.dispatch import NewPlan, submit_text
from weft.operations.identity import LOCAL
from weft.redaction import Redactor
from weft.worker.engine import guard, serving

TALKATIVE = Path(__file__).with_name("talkative_program.py")
HALVES = ("wJ4lrXUtn-first-half", "K7MD3NG-second-half")
KEY = '"/'.join(HALVES)
PLAN = """# Talk

## Phase 1: All of it

- [ ] Task 1: First says much
  <!-- files: one.txt -->
- [ ] Task 2: Next hears of it
  <!-- files: two.txt; needs: 1 -->
- [ ] Task 3: Task fails
  <!-- files: three.txt -->
"""
RANDOM = "kD83jfhQ20skLs92jfA7dk3hF9s2"
CHECK = 'echo "checked with $MY_API_KEY"; ! grep -qs "attempt 1" one.txt'


class Blind(Redactor):
    """The weakened build: sees no secret anywhere."""

    def redact_line(self, said: bytes) -> bytes:
        return said

    def redact_lines(self, said: list[bytes]) -> list[bytes]:  # type: ignore[override]
        return said

    def redact_text(self, said: str) -> str:
        return said

    def with_values(self, values: object) -> Redactor:
        return self


@pytest.fixture
def project(tmp_path: Path) -> Iterator[ServedProject]:
    with made_in(tmp_path) as served:
        programs = tmp_path / "bin"
        programs.mkdir()
        claude = programs / "claude"
        claude.write_text(f"#!/bin/sh\nexec {sys.executable} {TALKATIVE}\n")
        claude.chmod(0o755)
        served.environment["PATH"] = f"{programs}:{served.environment['PATH']}"
        served.environment["MY_API_KEY"] = KEY
        check = json.dumps(shlex.join(["sh", "-c", CHECK]))
        served.tune(f'[gate]\nrun = {check}\nenv = ["MY_API_KEY"]\n')
        settings = "runs: claude\nsandbox: off\nenv: [MY_API_KEY]\n"
        agent = f"---\n{settings}---\n{{{{ task.text }}}}\n{{{{ task.title }}}}\n"
        (served.root / ".weft/agents/talkative.md").write_text(agent)
        yield served


def tell(served: ServedProject) -> dict[str, int]:
    """Run the plan to its end in this process; its tasks by name."""
    plan = NewPlan(plan=PLAN, name="talk", agent="talkative")
    sent = submit_text(served.store, LOCAL, served.project(), plan)
    tasks = dict(sent.submitted.tasks)

    def is_over() -> bool:
        states = [State(row["state"]) for row in look(served.url, "SELECT state FROM tasks")]
        return all(one in (State.DONE, State.BLOCKED, State.FAILED) for one in states)

    async def main() -> None:
        with served.site() as site, anyio.fail_after(PATIENCE):
            async with serving(site, slots=4) as scheduler, anyio.create_task_group() as group:
                group.start_soon(guard, site, scheduler.worker)
                while not is_over():
                    await anyio.sleep(0.02)
                group.cancel_scope.cancel()

    anyio.run(main)
    return tasks


def kept(served: ServedProject, tasks: dict[str, int]) -> dict[str, bytes]:
    """All that is kept of it, and handed on."""
    store = Path(served.url.removeprefix("sqlite:///"))
    files = [path for path in store.parent.glob("weft.db*") if path.is_file()]
    # Not read here: to close a file that SQLite has open in this process lets go of its locks.
    found = {"database": subprocess.check_output(["cat", *files])}
    found["commits"] = git(served.root, "log", "--all", "--format=%B").encode()
    for directory in served.directory(next(iter(tasks.values()))).parent.iterdir():
        for file in directory.iterdir():
            if file.is_file() and file.name not in ("stdout", "stderr"):
                found[f"{directory.name}/{file.name}"] = file.read_bytes()
    return found


def shown(served: ServedProject, tasks: dict[str, int]) -> dict[str, bytes]:
    """All that is shown of it, by commands and over HTTP."""
    run = str(look(served.url, "SELECT id FROM runs")[0]["id"])
    page = served.root.parent / "report.html"
    weft(served, "report", run, "--html", str(page))
    found = {"report.html": page.read_bytes()}
    served.open()
    headers = {"Authorization": f"Bearer {served.give_token('read')}"}
    with httpx.Client(
        base_url=served.mcp.removesuffix("/mcp"), headers=headers, timeout=PATIENCE
    ) as http:
        last = look(served.url, "SELECT MAX(id) AS last FROM events WHERE kind = 'progress'")[0]
        with http.stream("GET", "/v1/events", headers={"Last-Event-ID": "0"}) as stream:
            read = b""
            for piece in stream.iter_bytes():
                read += piece
                if f"id: {last['last']}\n".encode() in read and read.endswith(b"\n\n"):
                    break
        found["sse"] = read
        for number in tasks.values():
            for path in (f"/v1/tasks/{number}", f"/v1/tasks/{number}/logs"):
                found[path] = http.get(path).raise_for_status().content
        first, _, failing = tasks.values()
        for options in ([], ["--raw"], ["--stderr"]):
            found["logs " + " ".join(options)] = weft(served, "logs", str(first), *options)
        found["why"] = weft(served, "why", str(failing))
        found["/v1/tasks"] = http.get("/v1/tasks").raise_for_status().content
    return found


def weft(served: AttemptProject, *arguments: str) -> bytes:
    environment = served.environment | {
        "WEFT_STORE": served.url,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", "weft", "-C", str(served.root), *arguments]
    done = run_forked(command, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.encode()


def leaks(places: dict[str, bytes]) -> set[str]:
    """Where a half of the key is."""
    return {name for name, data in places.items() if any(half.encode() in data for half in HALVES)}


def test_a_key_that_is_printed_is_kept_and_shown_nowhere(project: ServedProject) -> None:
    tasks = tell(project)
    first, following, failing = tasks.values()
    assert [project.state(one) for one in (first, following)] == [State.DONE] * 2
    assert project.outcomes(first) == ["success"] * 2  # the check refused the first
    assert project.state(failing) is State.BLOCKED
    found = kept(project, tasks) | shown(project, tasks)
    assert leaks(found) == set()
    # Not for want of anything that could have told.
    again, heard = f"{first}.2/stdin", f"{following}.1/stdin"
    assert b"checked with [MY_API_KEY]" in found[again]
    assert b"Done, with [MY_API_KEY]." in found[heard]
    assert b"It broke on [MY_API_KEY]." in found["why"]
    assert b"[MY_API_KEY]" in found["sse"]
    assert b"Done, with [MY_API_KEY]." in found["commits"]
    assert b"The key is [MY_API_KEY], you know." in found[f"/v1/tasks/{first}/logs"]
    assert b"an error with [MY_API_KEY]" in found["logs --stderr"]
    printed = project.directory(first) / "stdout"
    assert HALVES[0] in printed.read_text()  # what the program wrote stays as it is
    assert stat.S_IMODE(printed.stat().st_mode) == 0o600
    assert stat.S_IMODE(printed.parent.stat().st_mode) == 0o700


def test_a_build_that_sees_no_secrets_is_caught(project: ServedProject) -> None:
    project.store.redactor = Blind()
    tasks = tell(project)
    first, following, _ = tasks.values()
    prompts = {f"{first}.2/stdin", f"{following}.1/stdin"}
    assert {"database", "commits", *prompts} <= leaks(kept(project, tasks))


def test_who_adopts_an_attempt_knows_its_secrets_by_its_own_environment(
    project: ServedProject,
) -> None:
    go_on = project.root.parent / "go-on"
    project.environment["LICENCE"] = RANDOM  # no name that says so: only the agent's file does
    waits = f"echo begun; while [ ! -e {go_on} ]; do sleep 0.05; done; echo it is $LICENCE"
    project.shell("slow", waits, front="env: [LICENCE]\n")
    task = project.submit(agent="slow", files=())
    killed = project.engine()
    wait_until(lambda: project.said(task) == ["begun"])
    killed.kill()
    killed.wait()
    go_on.touch()
    project.serve()
    assert project.outcomes(task) == ["success"]
    assert project.said(task)[-1] == "it is [LICENCE]"
    assert RANDOM.encode() not in kept(project, {"slow": task})["database"]
