"""A session lives on one host: it goes on there, or its work goes on elsewhere without it."""

from __future__ import annotations

import shutil
import signal

import pytest

from end_to_end.worker_hosts import WorkerHosts
from repositories import git
from wait_until import PATIENCE, wait_until

pytestmark = pytest.mark.timeout(100)

QUESTION = '```weft\\n{"step": "ask", "question": "Which port?"}\\n```'


def test_a_session_goes_on_on_its_host_and_another_host_takes_up_its_pushed_work(
    hosts: WorkerHosts,
) -> None:
    project = hosts.project
    began = hosts.place / "began"
    project.agent(
        "asker",
        "hands_to: [asker]\n",
        "script: attempt 1: write src/a one\n"
        f"script: attempt 1: until test -e {began}\n"
        "script: attempt 1: limit for 0.1\n"
        "script: attempt 2: append src/a two\n"
        f"script: attempt 2: answer {QUESTION}\n"
        "script: attempt 3: append src/a three\n"
        "script: attempt 3: answer Finished.\n",
    )
    done = hosts.keep_home_busy()
    join = hosts.join_token("--uses", "2")
    first = hosts.start("first", "--token-file", str(join), "--slots", "1")
    [home_of_session] = hosts.wait_registered(1)
    project.plan.write_text("## P\n- [ ] Ask\n  <!-- files: src/a; agent: asker -->\n")
    project.start("run", "plan.md")  # it may end before the question is answered
    wait_until(lambda: len(project.rows("SELECT * FROM attempts")) == 2)
    sessions = {"WEFT_SCRIPTED_STATE": str(hosts.place / "sessions of the second")}
    hosts.start("second", "--token-file", str(join), "--slots", "1", **sessions)
    hosts.wait_registered(2)
    began.touch()
    question = "SELECT * FROM tasks WHERE state = 'blocked'"
    wait_until(lambda: project.rows(question))
    [task] = project.rows(question)
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=PATIENCE) == 0
    shutil.rmtree(hosts.home_of("first"))
    assert project.weft("answer", str(task["id"]), "8080").returncode == 0
    wait_until(lambda: project.rows("SELECT * FROM attempts WHERE number = 3"))
    done.touch()  # not before, since home has no slot for it
    wait_until(
        lambda: project.rows("SELECT * FROM tasks WHERE id = ? AND state = 'done'", task["id"])
    )
    attempts = project.rows("SELECT * FROM attempts WHERE task = ? ORDER BY number", task["id"])
    assert [row["outcome"] for row in attempts] == ["rate_limit", "asked", "success"]
    assert all(row["worker"].startswith(home_of_session) for row in attempts[:2])
    assert not attempts[2]["worker"].startswith(home_of_session)
    assert attempts[0]["session"] == attempts[1]["session"] != attempts[2]["session"]
    trunk = f"weft/{task['run']}"
    assert git(project.root, "show", f"{trunk}:src/a") == "one\ntwo\nthree\n"
    [prompt] = hosts.home_of("second").glob(f".cache/**/{task['id']}.3/stdin")
    assert "Where the last attempt stopped" in prompt.read_text()
    assert "Which port?" in prompt.read_text()
    assert "8080" in prompt.read_text()


def test_work_that_a_host_hands_back_is_kept_at_home(hosts: WorkerHosts) -> None:
    project = hosts.project
    project.agent("slow2", "", "script: write src/a half\nscript: say done so far\nscript: hang\n")
    done = hosts.keep_home_busy()
    worker = hosts.start("far", "--token-file", str(hosts.join_token()), SHUTDOWN_TIMEOUT="0")
    hosts.wait_registered(1)
    project.plan.write_text("## P\n- [ ] Hang\n  <!-- files: src/a; agent: slow2 -->\n")
    run = project.start("run", "plan.md")
    wait_until(lambda: project.rows("SELECT * FROM events WHERE kind = 'progress'"))
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=PATIENCE) == 0
    [ref] = git(project.root, "for-each-ref", "--format=%(refname)", "refs/weft/candidates").split()
    assert git(project.root, "show", f"{ref}:src/a") == "half\n"
    task = int(ref.rpartition("/")[2].split(".")[0])
    [lease] = project.rows("SELECT * FROM leases WHERE task = ?", task)
    assert lease["state"] == "released", "it was pushed before it was handed back"
    project.stop(run)
    done.touch()
