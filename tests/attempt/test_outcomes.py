"""From an agent's end to its task's next state, end to end, with the agent that needs no model."""

from __future__ import annotations

import time

import pytest

from attempt.attempt_project import Ground
from databases import look
from repositories import content, git
from weft.model import State, TaskRequest
from weft.store.limit_table import list_limits, list_stopped, penalise, resume_agent
from weft.store.tasks import cancel


def test_work_becomes_one_commit_on_the_attempts_branch(either: Ground) -> None:
    head = git(either.root, "rev-parse", "HEAD")
    task = either.submit("say working", "write a changed", "use 10 5 0.25", "answer All done")
    either.serve()
    [attempt] = either.attempts(task)
    assert either.state(task) is State.DONE
    assert either.task(task).result == "All done"
    assert (attempt.outcome, attempt.tokens, attempt.micro_usd) == ("success", 15, 250_000)
    message = git(either.root, "log", "-1", "--format=%B", str(attempt.candidate))
    assert message.startswith("script: say working\n\nAll done\n")
    assert f"Weft-Task: {either.task(task).name}\nWeft-Attempt: 1" in message
    assert either.said(task) == ["working"]
    assert git(either.root, "rev-parse", "HEAD") == head
    assert (either.root / "a").read_text() == "a\n"
    either.assert_candidate_once(task)
    either.assert_nothing_left()


def test_a_rate_limit_parks_the_task_and_the_session_goes_on_with_the_work_so_far(
    either: Ground,
) -> None:
    either.agent(front="provider: acme\n")
    task = either.submit(
        "write a half", "say before", "limit for 0.1", "append a rest", "say after", provider="acme"
    )
    either.serve()
    first, second = either.attempts(task)
    assert (first.outcome, second.outcome) == ("rate_limit", "success")
    assert first.session == second.session
    # The second says nothing of the first's lines: its session went on behind them.
    assert either.said(task) == ["before", "after"]
    assert either.content(task, "a") == "half\nrest\n"
    assert second.base == first.base
    assert git(either.root, "rev-parse", f"{second.candidate}^").strip() == first.base
    assert [row["level"] for row in look(either.url, "SELECT level FROM penalties")] == [1]
    either.assert_nothing_left()


def test_a_stated_reset_is_waited_for(ground: Ground) -> None:
    task = ground.submit("limit for 3600")
    ground.serve(lambda: ground.state(task) is State.PARKED)
    until = ground.task(task).until
    assert until is not None
    assert 3500 < until - time.time() < 3700
    assert look(ground.url, "SELECT * FROM leases WHERE state <> 'released'") == []


def test_a_penalty_holds_for_every_process(ground: Ground) -> None:
    ground.store.write(lambda tx: penalise(tx, "acme", now=time.time()))
    limits = {one.resource: one for one in list_limits(ground.store, now=time.time())}
    before = limits["provider:acme"].effective
    task = ground.submit("limit for 3600", agent="acme", provider="acme")
    ground.agent("acme", front="provider: acme\n")
    ground.serve(lambda: ground.state(task) is State.PARKED)
    limits = {one.resource: one for one in list_limits(ground.store, now=time.time())}
    assert limits["provider:acme"].effective < before


def test_an_overload_is_tried_again_after_a_while(ground: Ground) -> None:
    task = ground.submit(
        "attempt 1: fail overload", "attempt 2: fail capacity no room", "write a new"
    )
    ground.serve()
    # The session goes on behind the line that failed, whatever its condition.
    assert ground.outcomes(task)[-1] == "success"
    assert "overload" in ground.outcomes(task)
    assert "as the script says" not in (ground.directory(task, 2) / "stdin").read_text()
    assert ground.state(task) is State.DONE


@pytest.mark.parametrize(
    ("front", "asked", "script"),
    [
        ("", TaskRequest(timeout=1.0), "sleep 60"),
        # A task lifts no bound of its agent's.
        ("timeout: 1s\n", TaskRequest(timeout=3600.0), "sleep 60"),
        ("timeout: 1s\n", TaskRequest(timeout=-1.0), "sleep 60"),
        ("idle_timeout: 1s\n", TaskRequest(), "hang"),
    ],
)
def test_a_timeout_is_retried_and_then_blocks(
    ground: Ground, front: str, asked: TaskRequest, script: str
) -> None:
    ground.tune(timeout_retries=1)
    ground.agent(front=front)
    task = ground.submit("write a half", script, request=asked)
    ground.serve()
    assert ground.outcomes(task) == ["timeout"] * 2
    assert ground.state(task) is State.BLOCKED
    assert all(one.candidate for one in ground.attempts(task))
    ground.assert_nothing_left()


def test_who_is_not_logged_in_stops_its_agent_and_burns_nothing(ground: Ground) -> None:
    ground.agent(front="max_concurrency: 1\n")
    first = ground.submit("attempt 1: fail auth please log in", "write a new", files=["a"])
    second = ground.submit("write dir/b new", files=["dir/b"])
    ground.serve(lambda: "scripted" in list_stopped(ground.store, now=time.time()))
    assert "log in" in list_stopped(ground.store, now=time.time())["scripted"]
    ground.serve(lambda: True)
    assert (ground.state(first), ground.state(second)) == (State.READY, State.READY)
    assert len(ground.attempts(first)) + len(ground.attempts(second)) == 1
    resume_agent(ground.store, "scripted", now=time.time())
    ground.serve()
    assert (ground.state(first), ground.state(second)) == (State.DONE, State.DONE)


def test_a_program_that_is_not_installed_stops_its_agent(ground: Ground) -> None:
    ground.agent("absent", runs="[no-such-program-anywhere]")
    task = ground.submit("write a new", agent="absent")
    ground.serve(lambda: list_stopped(ground.store, now=time.time()))
    assert ground.state(task) is State.READY
    assert ground.outcomes(task) == ["config"]


def test_the_same_crash_three_times_is_a_pattern(ground: Ground) -> None:
    task = ground.submit("crash SEGV")
    ground.serve()
    assert ground.outcomes(task) == ["crash"] * 3
    assert ground.state(task) is State.BLOCKED
    assert "3 times in the same way" in ground.task(task).reason


def test_no_change_is_retried_once_and_told_to_the_agent(ground: Ground) -> None:
    task = ground.submit("attempt 1: say hm", "attempt 2: write a new")
    twice = ground.submit("say nothing to do", files=["dir/b"])
    ground.serve()
    assert ground.outcomes(task) == ["no_change", "success"]
    assert ground.outcomes(twice) == ["no_change", "no_change"]
    assert (ground.state(task), ground.state(twice)) == (State.DONE, State.BLOCKED)
    assert "nothing has changed" not in (ground.directory(task, 1) / "stdin").read_text()
    assert "nothing has changed" in (ground.directory(task, 2) / "stdin").read_text()


def test_an_undeclared_file_that_is_free_is_claimed_and_taken(ground: Ground) -> None:
    task = ground.submit("write a new", "touch extra/x.txt", files=["a"])
    ground.serve()
    assert ground.state(task) is State.DONE
    assert ground.content(task, "extra/x.txt") == ""
    [event] = ground.events(task, "claims_extended")
    assert event.data["files"] == ["extra/x.txt"]
    assert look(ground.url, "SELECT * FROM claims") == []


def test_an_undeclared_file_of_another_is_archived_and_claimed_from_the_start(
    either: Ground,
) -> None:
    holder = either.submit("sleep 60", "write dir/b mine", files=["dir/**"])
    task = either.submit("write a new", "write dir/b theirs", files=["a"])
    either.serve(lambda: len(either.attempts(task)) == 1 and either.state(task) is State.READY)
    assert either.outcomes(task) == ["scope"]
    assert sorted(either.task(task).files) == ["a", "dir/b"]
    kept = str(either.attempts(task)[0].candidate)
    assert content(either.root, kept, "dir/b") == "theirs\n"
    cancel(either.store, holder, now=time.time())
    either.serve()
    assert either.outcomes(task) == ["scope", "success"]
    assert either.content(task, "dir/b") == "theirs\n"
    either.assert_nothing_left()


def test_a_question_may_change_nothing(ground: Ground) -> None:
    asked = ground.submit("answer Because of the fence.", files=())
    changed = ground.submit("write a new", files=())
    ground.serve()
    assert (ground.state(asked), ground.task(asked).result) == (
        State.DONE,
        "Because of the fence.",
    )
    assert ground.state(changed) is State.BLOCKED
    assert "may change nothing" in ground.task(changed).reason
    assert ground.outcomes(changed) == ["scope"]


def test_conflicts_and_links_that_lead_out_are_refused(ground: Ground) -> None:
    marked = ground.submit(r"write a <<<<<<< ours\none\n=======\ntwo\n>>>>>>> theirs", files=["a"])
    ground.agent("linker", runs="[ln, -sfn, /etc, dir/out]")
    linked = ground.submit("", agent="linker", files=["dir/**"])
    ground.serve()
    assert ground.state(marked) is State.BLOCKED
    assert "conflicts in a" in ground.task(marked).reason
    assert ground.state(linked) is State.BLOCKED
    assert "lead out of the repository: dir/out" in ground.task(linked).reason


@pytest.mark.parametrize(
    "commands",
    [
        "echo new > a; git commit -qam own",
        "echo x > a; git commit -qam own; echo new > a; git commit -qa --amend -m other",
        "git checkout -qb elsewhere; echo new > a; git commit -qam own",
        "git checkout -q --detach; echo new > a; git commit -qam own",
        "echo new > a; git add a",
        "echo new > a; git stash -q; git stash apply -q",
        "echo new > a; rm .git",
        "echo new > a; git update-index --assume-unchanged a",
    ],
)
def test_whatever_the_agent_does_with_git_its_work_is_one_commit_on_the_base(
    ground: Ground, commands: str
) -> None:
    who = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a"
    ground.shell("shell", f"{who}; {commands}")
    task = ground.submit(agent="shell")
    ground.serve()
    assert ground.state(task) is State.DONE, ground.task(task).reason
    assert ground.content(task, "a") == "new\n"
    ground.assert_candidate_once(task)
    ground.assert_nothing_left()


def test_a_workspace_the_agent_destroyed_fails_its_task_and_nothing_else(ground: Ground) -> None:
    ground.shell("shell", 'rm -rf "$PWD"')
    broken = ground.submit(agent="shell", files=["a"])
    fine = ground.submit("sleep 0.3", "write dir/b new", files=["dir/b"])
    ground.serve()
    assert ground.state(broken) is State.BLOCKED
    assert "cannot be read" in ground.task(broken).reason
    assert ground.state(fine) is State.DONE
    after = ground.submit("write a new", files=["a"])
    ground.serve()
    assert ground.state(after) is State.DONE


def test_files_with_hostile_names_claim_themselves_alone(either: Ground) -> None:
    names = ["*", "**", "[a]", "a b", "-rf", "é", r"new\nline", "?", r"\377"]
    made = "".join(f"printf x > \"$(printf './{name}_')\"\n" for name in names)
    either.shell("shell", made)
    task = either.submit(agent="shell", files=["a"])
    either.serve()
    assert either.state(task) is State.DONE, either.task(task).reason
    [event] = either.events(task, "claims_extended")
    assert sorted(event.data["files"]) == sorted(
        ["[*]_", "[*][*]_", "[[]a]_", "a b_", "-rf_", "é_", "new\nline_", "[?]_", "?_"]
    )
    commit = str(either.attempts(task)[0].candidate)
    listed = git(either.root, "ls-tree", "-z", "--name-only", commit).split("\0")
    assert {"*_", "**_", "[a]_", "new\nline_", "?_", "\udcff_"} < set(listed)


def test_a_secret_that_the_tail_of_stderr_cuts_in_two_is_not_kept(ground: Ground) -> None:
    """The last 4,096 bytes are read: without care they begin in the middle of the secret."""
    secret = "wJ4lrXUtn-first-half/K7MD3NG-second-half"
    half = len(secret) // 2
    ground.environment["MY_API_KEY"] = secret
    letters = (4096 - half) // len("é".encode())
    fails = f"printf %s $MY_API_KEY >&2; printf 'é%.0s' $(seq {letters}) >&2; exit 3"
    ground.shell("failing", fails, front="env: [MY_API_KEY]\n")
    task = ground.submit(agent="failing")
    ground.serve()
    assert "ééé" in ground.task(task).reason
    assert secret[half:] not in str(look(ground.url, "SELECT * FROM tasks"))
    assert secret[half:] not in str(look(ground.url, "SELECT * FROM events"))
