"""`weft do` as a stranger uses it: on both stores, with typos, interrupted, and read by nobody."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from cli.shell import agents_of, assert_one_sentence, make_project, runs, started, wait_line, weft
from databases import look
from repositories import content, git, make_repository
from wait_until import wait_until


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def store_of(project: Path) -> str:
    return f"sqlite:///{project / '.git' / 'weft' / 'weft.db'}"


def states(project: Path) -> list[str]:
    rows = look(store_of(project), "SELECT state FROM tasks ORDER BY id")
    return [str(row["state"]) for row in rows]


def test_a_task_becomes_a_commit_on_a_branch_and_the_checkout_stays(
    project: Path, url: str
) -> None:
    text = "Say hello\nscript: say working on it\nscript: write hello.txt hello"
    before = git(project, "status", "--porcelain"), git(project, "rev-parse", "HEAD")
    done = weft(project, "do", text, "--agent", "try", WEFT_STORE=url)
    assert done.returncode == 0, done.stderr
    assert "working on it" in done.stdout
    [branch] = git(project, "for-each-ref", "--format=%(refname)", "refs/weft/work").split()
    assert branch.startswith("refs/weft/work/do/say-hello-")
    assert f"git cherry-pick {branch}" in done.stdout
    assert content(project, branch, "hello.txt") == "hello\n"
    assert (git(project, "status", "--porcelain"), git(project, "rev-parse", "HEAD")) == before
    [task] = look(url, "SELECT state, name FROM tasks")
    assert task["state"] == "done"
    assert not look(url, "SELECT * FROM claims")


def test_a_question_is_answered_once_and_changes_nothing(project: Path) -> None:
    text = "Why?\nscript: answer because it is so"
    done = weft(project, "do", text, "--agent", "try", "--files", "none")
    assert done.returncode == 0, done
    assert done.stdout.count("because it is so") == 1
    assert "branch" not in done.stdout
    assert git(project, "for-each-ref", "refs/weft/work") == ""


def test_what_could_only_fail_is_refused_in_a_sentence_and_leaves_no_task(tmp_path: Path) -> None:
    bare = make_repository(tmp_path / "bare")
    assert_one_sentence(weft(bare, "do", "x", "--json"), 2, "'implement'", "`weft init`")
    project = make_project(tmp_path / "project", implement=runs("no-such-program", "-x"))
    done = weft(project, "do", "x", "--json")
    assert_one_sentence(done, 2, "no-such-program is not installed", "PATH", "implement.md")
    assert not (project / ".git" / "weft").exists()
    done = weft(project, "do", "x", "--agent", "try", SHUTDOWN_TIMEOUT="soon")
    assert_one_sentence(done, 2, "SHUTDOWN_TIMEOUT", "'soon'")
    assert states(project) == ["cancelled"], "a later worker would do it unasked"


def test_work_that_fails_is_exit_code_1_with_the_reason(project: Path) -> None:
    done = weft(project, "do", "x\nscript: fail other it hurts", "--agent", "try", "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["state"] == "blocked"
    assert "it hurts" in told["reason"]


def test_what_an_agent_says_cannot_steer_the_terminal(tmp_path: Path) -> None:
    says = r"printf '\033]0;mine\007\033[2J\r\342\200\256hidden\n' ; echo x > x"
    project = make_project(tmp_path / "project", rude=runs("sh", "-c", says))
    done = weft(project, "do", "\x1b[31mred", "--agent", "rude")
    assert done.returncode == 0, done
    assert "hidden" in done.stdout
    assert all(c.isprintable() or c == "\n" for c in done.stdout + done.stderr)


def test_a_reader_that_goes_away_does_not_end_the_work(project: Path) -> None:
    text = "x\nscript: say first\nscript: sleep 0.3\nscript: print 9\nscript: write x x"
    with started(project, "do", text, "--agent", "try") as process:
        wait_line(process, "first")
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait() == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert states(project) == ["done"]


def test_an_interrupted_agent_gets_its_time_and_its_work_counts(project: Path) -> None:
    text = "x\nscript: say here\nscript: sleep 5\nscript: write x x"
    with started(project, "do", text, "--agent", "try", "--json") as process:
        wait_until(lambda: agents_of(project))
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate()
    assert process.returncode == 0
    assert json.loads(out)["state"] == "done"


@pytest.mark.parametrize("patience", ["0", "600000"])
def test_interrupting_ends_the_agent_after_its_time_or_at_the_second_signal(
    project: Path, patience: str
) -> None:
    text = "x\nscript: ignore TERM\nscript: grandchild 600 deaf\nscript: hang"
    (project / "weft.toml").write_text("[tuning]\nkill_grace = 0.5\n")
    arguments = ("do", text, "--agent", "try", "--json")
    with started(project, *arguments, SHUTDOWN_TIMEOUT=patience) as process:
        wait_until(lambda: agents_of(project))
        process.send_signal(signal.SIGINT)
        if patience != "0":
            assert process.stderr is not None
            assert "interrupt again" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
        out, _ = process.communicate()
    assert process.returncode == 130
    told = json.loads(out)
    assert (told["state"], told["reason"]) == ("cancelled", "interrupted")
    assert agents_of(project) == []
