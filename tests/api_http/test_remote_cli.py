"""Every command over a server answers what it answers beside the store."""

from __future__ import annotations

import json
import pkgutil
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from api_http.server_cli import Served, make_token, served
from cli.plan_project import Project, plan, without_marks
from cli.shell import assert_one_sentence
from databases import sqlite_store
from forked_python import run_forked
from repositories import git, make_repository
from wait_until import PATIENCE, wait_until
from weft.api.http.routes.verb_routes import MODULES
from weft.attempt.start_facts import list_questions
from weft.cli import COMMANDS
from weft.errors import Forbidden, InputError, Unauthenticated
from weft.model import HUMAN, Class, NewRun, NewTask, State
from weft.operations.dispatch import send
from weft.operations.identity import LOCAL
from weft.operations.member_records import Dispatched, NewWork
from weft.project.project import find_server_project
from weft.runs.attempt_output import read_piece
from weft.runs.explanation import explain_task
from weft.runs.host_output import AttemptName
from weft.store import open_store
from weft.store.admission import drain, undo_drain
from weft.store.event_log import last_event
from weft.store.remote_calls import hints_of
from weft.store.remote_store import RemoteStore
from weft.store.runs import submit_run
from weft.store.server_client import Server
from weft.store.server_operations import HOSTED
from weft.store.tasks import cancel, submit

LOOKS = {
    "agents": ("agents", "--json"),
    "clean": ("clean", "--dry-run", "--json"),
    "diff": ("diff", "1"),
    "doctor": ("doctor", "--json"),
    "limits": ("limits", "--json"),
    "logs": ("logs", "1", "--json"),
    "plan": ("plan", "check", "plan.md", "--json"),
    "ps": ("ps", "--json"),
    "ps --queue": ("ps", "--queue", "--json"),
    "ps --tasks": ("ps", "RUN", "--json"),
    "report": ("report", "RUN", "--json"),
    "report --cost": ("report", "--cost", "--json"),
    "runs": ("runs", "--json"),
    "token": ("token", "list", "--json"),
    "verify": ("verify", "RUN", "--json"),
    "watch": ("watch", "RUN"),
    "why": ("why", "1", "--json"),
}
STEERING = (
    ("send", "{run}/one", "mind the tests"),
    ("answer", "{run}/agree", "--yes"),
    ("answer", "{run}/object", "--no", "not so"),
    ("cancel", "{run}/one"),
    ("retry", "{run}/one"),
    ("skip", "{run}/two"),
    ("pause", "{run}/one"),
    ("resume", "{run}/one"),
    ("pause", "{run}"),
    ("resume", "{run}"),
    ("cancel", "{run}"),
)
ELSEWHERE = {
    *("do", "drain", "init", "land", "mcp", "open", "publish", "review", "run", "serve"),
    *("demo", "help", "loop", "recordings", "worker"),
}
"""Commands that have tests of their own, below, in test_remote_work or in tests/mcp, and those that
ask no server."""


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A project with a past, and a server that has it."""
    place = tmp_path_factory.mktemp("remote")
    project = Project(place / "project", sqlite_store(place / "weft.db"))
    project.write(plan("One: a.txt: write a.txt hello", "Two: b.txt: write b.txt there"))
    done = project.weft("run", "plan.md", "--json")
    assert done.returncode == 0, done.stderr
    with served(project) as found:
        shutil.copy(project.root / "plan.md", found.elsewhere)
        yield found


def test_every_command_is_covered() -> None:
    steered = {command for command, *_ in STEERING}
    looks = {name.split()[0] for name in LOOKS}
    assert set(COMMANDS) == {*looks, *steered, *ELSEWHERE}


def test_every_operation_on_the_repository_is_offered_and_can_travel() -> None:
    for package in ("weft.runs", "weft.maintenance", "weft.gate", "weft.project"):
        for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
            import_module(module.name)
    known = dict(HOSTED)
    assert set(MODULES) == {operation.function.__module__ for operation in known.values()}
    for operation in known.values():
        first, *rest = hints_of(operation.function).items()
        assert first[0] in ("project", "place"), operation.name
        for _, hint in rest:
            msgspec.json.Decoder(hint)


def test_who_looks_sees_the_same_over_a_server(remote: Served) -> None:
    run = remote.project.rows("SELECT id FROM runs")[0]["id"]

    for arguments in LOOKS.values():
        asked = [run if one == "RUN" else one for one in arguments]
        here, there = remote.here(*asked), remote.weft(*asked)
        code, out, errors = _told(here)
        # A client cannot know which branches of the server's checkout have a run.
        expected = (code, out.replace('"merged": false', '"merged": null'), errors)
        assert _told(there) == expected, arguments
        assert here.returncode == 0, arguments
        assert here.stdout, arguments


def _told(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


def test_who_steers_is_told_the_same_over_a_server(remote: Served) -> None:
    for run in ("beside", "afar"):
        _submit(remote.project.url, run)

    def steer(weft: Callable[..., subprocess.CompletedProcess[str]], run: str) -> list[object]:
        found: list[object] = []
        for command, *rest in STEERING:
            done = weft(command, "--json", *(one.format(run=run) for one in rest))
            found.append((command, done.returncode, re.sub(r"\d+|beside|afar", "…", done.stdout)))
            assert done.stderr == "", command
        return found

    assert steer(remote.here, "beside") == steer(remote.weft, "afar")
    # Over a server the reason names the token: the same words, and who asked.
    question = (
        "SELECT name, state, replace(reason, ' by a test', '') AS reason"
        " FROM tasks WHERE run = ? ORDER BY id"
    )
    assert remote.project.rows(question, "afar") == remote.project.rows(question, "beside")
    assert {one["state"] for one in remote.project.rows(question, "afar")} >= {"done", "cancelled"}


def _submit(url: str, run: str) -> None:
    tasks = [
        NewTask(name="agree", agent=HUMAN),
        NewTask(name="object", agent=HUMAN),
        NewTask(name="one", agent="implement", pinned="nobody"),
        NewTask(name="two", agent="implement", pinned="nobody"),
    ]
    with open_store(url) as store:
        submit_run(store, NewRun(id=run, repo="nowhere"), tasks, now=1.0)


def test_limits_drains_and_agents_are_set_for_all(remote: Served) -> None:
    assert "it was 12" in remote.answer("limits", "set", "llm", "7", "--json")["text"]
    assert "it was 7" in remote.project.answer("limits", "set", "llm", "12", "--json")["text"]
    assert remote.answer("drain", "--json")["changed"]
    assert not remote.project.answer("drain", "--json")["changed"]
    assert remote.answer("drain", "--undo", "--json")["changed"]
    assert remote.answer("agents", "resume", "implement", "--json")["resumed"] is False


def test_an_agent_is_tried_where_it_is(remote: Served) -> None:
    told = remote.answer("agents", "test", "implement", "--json")
    assert (told["works"], told["problem"]) == (True, None)


def test_what_is_about_this_machine_stays_here(remote: Served, tmp_path: Path) -> None:
    fresh = make_repository(tmp_path / "fresh")
    done = remote.weft("-C", str(fresh), "init", "--json")
    assert json.loads(done.stdout)["root"] == str(fresh)
    assert_one_sentence(remote.weft("serve"), 2, "--server", "WEFT_STORE")


def test_a_worker_on_a_host_that_has_not_joined_says_how_to_join(remote: Served) -> None:
    assert_one_sentence(remote.weft("worker"), 2, "--join", "--token-file")


def test_errors_are_the_same_sentence_with_the_same_exit_code(remote: Served) -> None:
    for asked in (("why", "999"), ("retry", "1"), ("diff", "nothing"), ("verify", "nothing")):
        here, there = remote.here(*asked), remote.weft(*asked)
        assert here.returncode in (1, 2)
        assert _told(here) == _told(there)


def test_a_plan_runs_to_its_end_over_a_server(remote: Served) -> None:
    """Checked here, submitted there, followed here, marked here."""
    path = remote.elsewhere / "later.md"
    text = plan("Three: c.txt: write c.txt three", "Four: d.txt: write d.txt four")
    path.write_text(text)
    done = remote.weft("run", "later.md", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  agent   " in done.stdout, "those that are there"
    refused = remote.weft("run", "later.md", "--dry-run", "--into", "main")
    assert_one_sentence(refused, 2, "--into main", "checked out")
    with worker(remote.project):
        done = remote.weft("run", "later.md", "--into", "taken", "--json")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert {one["state"] for one in told["tasks"]} == {"done"}
        assert told["into"]["text"].startswith("taken is at ")
        assert git(remote.project.root, "show", "taken:c.txt").strip() == "three"
        marked = path.read_text()
        assert marked.count("[x]") == 2
        assert without_marks(marked) == text
        assert_one_sentence(remote.weft("run", "--resume"), 2, "no unfinished run")

        hello = "Say hello\n\nscript: say hello"
        answered = remote.answer("do", hello, "--files", "none", "--json")
        assert answered["state"] == "done"
        refused = remote.weft("do", "x", "--agent", "nobody")
        assert_one_sentence(refused, 2, "There is no agent 'nobody'")


def test_a_server_does_not_choose_the_file_that_marks_are_written_to(remote: Served) -> None:
    named, other = remote.elsewhere / "named.md", remote.elsewhere / "other.md"
    text = plan("One: e.txt: write e.txt e")
    for run, path in (("chosen-1", other), ("chosen-2", named)):
        path.write_text(text)
        with open_store(remote.project.url) as store:
            new = NewRun(id=run, repo="nowhere", plan=str(path))
            submit_run(store, new, [NewTask(name="1.1", agent=HUMAN)], now=1.0)
        assert remote.here("answer", f"{run}/1.1", "--no", "no").returncode == 0
    done = remote.weft("run", "--resume", "chosen-1", "--no-tty")
    assert done.returncode == 1
    assert other.read_text() == text
    assert "weft run FILE --resume chosen-1" in done.stderr
    refused = remote.weft("run", "named.md", "--resume", "chosen-1")
    assert_one_sentence(refused, 2, "chosen-1", "other.md", "named.md")
    done = remote.weft("run", "named.md", "--resume", "chosen-2", "--no-tty")
    assert done.returncode == 1
    assert named.read_text() != text
    assert without_marks(named.read_text()) == text
    assert other.read_text() == text
    for run in ("chosen-1", "chosen-2"):
        assert remote.here("cancel", run).returncode == 0


@contextmanager
def worker(project: Project) -> Iterator[None]:
    process = project.start("worker")
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_who_follows_goes_on_when_the_server_is_back(remote: Served) -> None:
    (remote.elsewhere / "slow.md").write_text(
        plan("Slow: s.txt: say begun; sleep 4; write s.txt s")
    )
    with worker(remote.project), remote.started("run", "slow.md", "--no-tty") as run:
        wait_until(lambda: _running(remote))
        name = remote.project.rows("SELECT id FROM runs WHERE state <> 'ended'")[0]["id"]
        with (
            remote.started("logs", "-f", f"{name}/1.1") as logs,
            remote.started("watch", name, "--no-tty") as watch,
        ):
            assert logs.stdout is not None
            assert logs.stdout.readline()
            assert watch.stdout is not None
            assert watch.stdout.readline()
            remote.stop()
            remote.start_again()
            for process in (run, logs, watch):
                said, complaints = process.communicate(timeout=PATIENCE)
                assert process.returncode == 0, (process.args, said, complaints)
                assert "Traceback" not in complaints
    assert git(remote.project.root, "show", f"weft/{name}:s.txt").strip() == "s"


def _running(remote: Served) -> bool:
    return bool(remote.project.rows("SELECT 1 AS one FROM tasks WHERE state = 'running'"))


def test_what_was_done_is_not_done_again_when_its_answer_is_lost(remote: Served) -> None:
    before = remote.project.rows("SELECT count(*) AS n FROM tasks")[0]["n"]
    with losing_answers(remote.port, 1) as port:
        url = f"http://127.0.0.1:{port}"
        with RemoteStore(Server(url=url, token=remote.token)) as store:
            task = submit(store, NewTask(name="once"), repo="nowhere", now=1.0)
            assert cancel(store, task, now=2.0)
    assert remote.project.rows("SELECT count(*) AS n FROM tasks")[0]["n"] == before + 1


@contextmanager
def losing_answers(port: int, lost: int) -> Iterator[int]:
    """A way to the server on which so many answers are lost, each after the work was done."""
    listening = socket.create_server(("127.0.0.1", 0))

    def carry() -> None:
        left = lost
        while True:
            try:
                caller, _ = listening.accept()
            except OSError:
                return
            with caller, socket.create_connection(("127.0.0.1", port)) as server:
                server.sendall(_request(caller).replace(b"Accept:", b"Connection: close\r\nX:"))
                answer = b"".join(iter(lambda: server.recv(65536), b""))
                assert answer.startswith(b"HTTP/1.1 200")
                if left:
                    left -= 1
                else:
                    caller.sendall(answer)

    thread = threading.Thread(target=carry)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def _request(caller: socket.socket) -> bytes:
    """All of it, however many pieces it comes in."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += caller.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while length and len(body) < int(length[1]):
        body += caller.recv(65536)
    return head + b"\r\n\r\n" + body


def test_no_path_of_a_caller_reaches_the_files(remote: Served) -> None:
    place = find_server_project(
        remote.elsewhere, {"WEFT_SERVER": remote.url, "WEFT_TOKEN": remote.token}
    )
    assert place is not None
    attempt = AttemptName(task=1, number=1)
    for store, offset in (("../../x", 0), ("", 0), ("/etc", 0), ("a" * 32, -1)):
        with pytest.raises(InputError):
            read_piece(place, store, attempt, stream="stdout", offset=offset, ended=True)
    assert read_piece(place, "a" * 32, attempt, stream="stdout", offset=0, ended=True) is None
    with pytest.raises(InputError, match="stream"):
        read_piece(
            place,
            "a" * 32,
            attempt,
            stream="../x",  # type: ignore[arg-type]  # what only a stranger would send
            offset=0,
            ended=True,
        )


def test_tokens_are_asked_for_and_bound(remote: Served) -> None:
    def ps(token: str, *asked: str) -> subprocess.CompletedProcess[str]:
        return remote.weft(*(asked or ("ps",)), WEFT_TOKEN=token)

    reader = make_token(remote.project.url, "read")
    assert ps(reader).returncode == 0
    for done in (ps(reader, "drain"), ps(reader, "token", "list"), ps(reader, "clean")):
        assert_one_sentence(done, 1, "admin")
    wrong = f"weft_{'0' * 12}_{'x' * 43}"
    for done in (ps(wrong), ps(""), remote.weft("ps", WEFT_TOKEN="a\nb")):
        assert_one_sentence(done, 2 if "no token:" in done.stderr else 1, "WEFT_TOKEN")
        assert wrong not in done.stderr
    kept = remote.elsewhere / "token"
    kept.write_text(f"{reader}\n")
    done = remote.weft("--token-file", str(kept), "ps")
    assert done.returncode == 0, done.stderr


def test_who_asks_and_when_is_known_to_the_server_and_not_believed(remote: Served) -> None:
    def forge(token: str) -> Dispatched:
        with RemoteStore(Server(url=remote.url, token=token)) as store:
            return send(store, LOCAL, NewWork(text="x"), now=-1.0)

    url = remote.project.url
    for scope in ("read", "work"):
        with pytest.raises(Forbidden):
            forge(make_token(url, scope))
    admin = make_token(url, "admin")
    sent = forge(admin)
    [task] = remote.project.rows("SELECT created_by, since FROM tasks WHERE id = ?", sent.task)
    assert task["created_by"] == f"token {admin.split('_')[1]}"
    assert task["since"] > 1e9


def test_a_task_is_cancelled_by_whoever_does_not_wait_for_it(remote: Served) -> None:
    text = "Wait\n\nscript: sleep 60"
    with worker(remote.project), remote.started("do", text, "--files", "none") as do:
        assert do.stdout is not None
        assert "attempt 1" in do.stdout.readline()
        do.send_signal(signal.SIGINT)
        _, complaints = do.communicate(timeout=PATIENCE)
        assert do.returncode == 130, complaints
    [task] = remote.project.rows("SELECT state FROM tasks ORDER BY id DESC LIMIT 1")
    assert task["state"] == "cancelled"


def test_a_loopback_server_takes_the_token_it_left_for_its_user(remote: Served) -> None:
    done = remote.here("--server", remote.url, "ps", "--json")
    assert done.returncode == 0, done.stderr


def test_where_no_server_is_there_is_one_sentence(remote: Served) -> None:
    def ps(url: str, **environment: str) -> subprocess.CompletedProcess[str]:
        known = {**remote.environment, **environment}
        command = [sys.executable, "-m", "weft", "--server", url, "ps"]
        return run_forked(command, cwd=remote.elsewhere, env=known)

    assert_one_sentence(ps("http://127.0.0.1:1"), 2, "no server", "weft serve")
    assert_one_sentence(ps("http://weft.invalid:1"), 2, "in the clear", "WEFT_INSECURE")
    assert_one_sentence(ps("http://me:secret@127.0.0.1:1"), 2, "no name or password")
    assert_one_sentence(ps("ftp://127.0.0.1"), 2, "names no server")
    assert_one_sentence(ps(remote.url.replace("http:", "https:")), 2, "no TLS")
    assert_one_sentence(ps("https://weft.invalid:1"), 2, "no server at https://weft.invalid:1")
    assert_one_sentence(
        ps("http://weft.invalid:1", WEFT_INSECURE="1"), 2, "no server", "that name is unknown"
    )


def test_records_of_the_store_are_whole_after_the_journey(remote: Served) -> None:
    """Numbers, enumerations and tuples come back as what they were, not merely alike."""
    url = remote.project.url
    with (
        open_store(url) as here,
        RemoteStore(Server(url=remote.url, token=make_token(url, "read"))) as there,
    ):
        task = explain_task(there, "1", now=0).task
        assert explain_task(here, "1", now=0) == explain_task(there, "1", now=0)
        assert [type(one) for one in (task.klass, task.files, task.state)] == [Class, tuple, State]
        assert there.tuning.lease == 3.0


def test_a_thread_that_remembers_reads_each_fact_once(remote: Served) -> None:
    url = remote.project.url
    with (
        open_store(url) as here,
        RemoteStore(Server(url=remote.url, token=make_token(url, "read"))) as there,
    ):
        before = last_event(there)
        with there.remembering():
            assert last_event(there) == before
            drain(here, now=0)
            assert last_event(there) == before
        assert last_event(there) > before
        undo_drain(here, now=0)


def test_the_facts_of_a_start_come_in_one_request(remote: Served) -> None:
    url = remote.project.url
    row = remote.project.rows("SELECT id, run FROM tasks WHERE run IS NOT NULL ORDER BY id")[0]
    questions = list_questions(row["id"], row["run"])
    there = RemoteStore(Server(url=remote.url, token=make_token(url, "read")))
    with open_store(url) as here, there, there.remembering(questions):
        there.use_token("no token")
        for verb, about in questions:
            assert verb(there, about) == verb(here, about)
        with pytest.raises(Unauthenticated):
            last_event(there)  # it was not asked


def test_over_a_server_land_moves_a_branch_and_no_checkout(remote: Served) -> None:
    root = remote.project.root
    run = remote.project.rows("SELECT id FROM runs WHERE base <> '' ORDER BY submitted")[0]["id"]
    refused = remote.weft("land", run)
    assert refused.returncode == 1
    assert f"checked out in {root} on the server's machine" in refused.stderr
    base = git(root, "rev-parse", "main").strip()
    git(root, "branch", "release", base)
    landed = remote.weft("land", run, "--onto", "release", "--json")
    assert json.loads(landed.stdout)["new"] == git(root, "rev-parse", "release").strip()
    assert git(root, "rev-parse", "release") == git(root, "rev-parse", f"weft/{run}")
    assert git(root, "rev-parse", "main").strip() == base
