"""From an agent's end to its task's next state, end to end, with the agent that needs no model."""

from __future__ import annotations

import time

import pytest

from attempt.attempt_project import AttemptProject
from databases import look
from repositories import content, git
from store_helpers import hire
from weft.attempt.start_failure import fail_to_start
from weft.model import PredictedFile, State, TaskRequest
from weft.process.launcher import LaunchFailed
from weft.store.admission import admit_task
from weft.store.attempt_reports import list_attempt_files
from weft.store.limit_table import list_limits, list_stopped, penalise, resume_agent
from weft.store.tasks import cancel


def test_work_becomes_one_commit_on_the_attempts_branch(either: AttemptProject) -> None:
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


def test_a_wrapper_that_does_not_start_is_tried_again(project: AttemptProject) -> None:
    task = project.submit("write a changed")
    with project.site() as site:
        hire(project.store)
        [grant] = admit_task(project.store, "w", task, now=time.time())
        fail_to_start(site, grant, LaunchFailed())
    assert project.state(task) in (State.READY, State.PARKED)


def test_a_rate_limit_parks_the_task_and_the_session_goes_on_with_the_work_so_far(
    either: AttemptProject,
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


def test_a_stated_reset_is_waited_for(project: AttemptProject) -> None:
    task = project.submit("limit for 3600")
    project.serve(lambda: project.state(task) is State.PARKED)
    until = project.task(task).until
    assert until is not None
    assert 3500 < until - time.time() < 3700
    assert look(project.url, "SELECT * FROM leases WHERE state <> 'released'") == []


def test_a_penalty_holds_for_every_process(project: AttemptProject) -> None:
    project.store.write(lambda tx: penalise(tx, "acme", now=time.time()))
    limits = {one.resource: one for one in list_limits(project.store, now=time.time())}
    before = limits["provider:acme"].effective
    task = project.submit("limit for 3600", agent="acme", provider="acme")
    project.agent("acme", front="provider: acme\n")
    project.serve(lambda: project.state(task) is State.PARKED)
    limits = {one.resource: one for one in list_limits(project.store, now=time.time())}
    assert limits["provider:acme"].effective < before


def test_an_overload_is_tried_again_after_a_while(project: AttemptProject) -> None:
    task = project.submit(
        "attempt 1: fail overload", "attempt 2: fail capacity no room", "write a new"
    )
    project.serve()
    # The session goes on behind the line that failed, whatever its condition.
    assert project.outcomes(task)[-1] == "success"
    assert "overload" in project.outcomes(task)
    assert "as the script says" not in (project.directory(task, 2) / "stdin").read_text()
    assert project.state(task) is State.DONE


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
    project: AttemptProject, front: str, asked: TaskRequest, script: str
) -> None:
    project.tune(timeout_retries=1)
    project.agent(front=front)
    task = project.submit("write a half", script, request=asked)
    project.serve()
    assert project.outcomes(task) == ["timeout"] * 2
    assert project.state(task) is State.BLOCKED
    assert all(one.candidate for one in project.attempts(task))
    project.assert_nothing_left()


def test_who_is_not_logged_in_stops_its_agent_and_burns_nothing(project: AttemptProject) -> None:
    project.agent(front="max_concurrency: 1\n")
    first = project.submit("attempt 1: fail auth please log in", "write a new", files=["a"])
    second = project.submit("write dir/b new", files=["dir/b"])
    project.serve(lambda: "scripted" in list_stopped(project.store, now=time.time()))
    assert "log in" in list_stopped(project.store, now=time.time())["scripted"]
    project.serve(lambda: True)
    assert (project.state(first), project.state(second)) == (State.READY, State.READY)
    assert len(project.attempts(first)) + len(project.attempts(second)) == 1
    resume_agent(project.store, "scripted", now=time.time())
    project.serve()
    assert (project.state(first), project.state(second)) == (State.DONE, State.DONE)


def test_a_program_that_is_not_installed_stops_its_agent(project: AttemptProject) -> None:
    project.agent("absent", runs="[no-such-program-anywhere]")
    task = project.submit("write a new", agent="absent")
    project.serve(lambda: list_stopped(project.store, now=time.time()))
    assert project.state(task) is State.READY
    assert project.outcomes(task) == ["config"]


def test_the_same_crash_three_times_is_a_pattern(project: AttemptProject) -> None:
    task = project.submit("crash SEGV")
    project.serve()
    assert project.outcomes(task) == ["crash"] * 3
    assert project.state(task) is State.BLOCKED
    assert "3 times in the same way" in project.task(task).reason


def test_no_change_is_retried_once_and_told_to_the_agent(project: AttemptProject) -> None:
    task = project.submit("attempt 1: say hm", "attempt 2: write a new")
    twice = project.submit("say nothing to do", files=["dir/b"])
    project.serve()
    assert project.outcomes(task) == ["no_change", "success"]
    assert project.outcomes(twice) == ["no_change", "no_change"]
    assert (project.state(task), project.state(twice)) == (State.DONE, State.BLOCKED)
    assert "nothing has changed" not in (project.directory(task, 1) / "stdin").read_text()
    assert "nothing has changed" in (project.directory(task, 2) / "stdin").read_text()


def test_an_undeclared_file_that_is_free_is_claimed_and_taken(project: AttemptProject) -> None:
    task = project.submit("write a new", "touch extra/x.txt", files=["a"])
    project.serve()
    assert project.state(task) is State.DONE
    assert project.content(task, "extra/x.txt") == ""
    [event] = project.events(task, "claims_extended")
    assert event.data["files"] == ["extra/x.txt"]
    assert look(project.url, "SELECT * FROM claims") == []


def test_an_undeclared_file_of_another_is_archived_and_claimed_from_the_start(
    either: AttemptProject,
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


def test_a_question_may_change_nothing(project: AttemptProject) -> None:
    asked = project.submit("answer Because of the fence.", files=())
    changed = project.submit("write a new", files=())
    project.serve()
    assert (project.state(asked), project.task(asked).result) == (
        State.DONE,
        "Because of the fence.",
    )
    assert project.state(changed) is State.BLOCKED
    assert "may change nothing" in project.task(changed).reason
    assert project.outcomes(changed) == ["scope"]


def test_conflicts_and_links_that_lead_out_are_refused(project: AttemptProject) -> None:
    marked = project.submit(r"write a <<<<<<< ours\none\n=======\ntwo\n>>>>>>> theirs", files=["a"])
    project.agent("linker", runs="[ln, -sfn, /etc, dir/out]")
    linked = project.submit("", agent="linker", files=["dir/**"])
    project.serve()
    assert project.state(marked) is State.BLOCKED
    assert "conflicts in a" in project.task(marked).reason
    assert project.state(linked) is State.BLOCKED
    assert "lead out of the repository: dir/out" in project.task(linked).reason


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
    project: AttemptProject, commands: str
) -> None:
    who = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a"
    project.shell("shell", f"{who}; {commands}")
    task = project.submit(agent="shell")
    project.serve()
    assert project.state(task) is State.DONE, project.task(task).reason
    assert project.content(task, "a") == "new\n"
    project.assert_candidate_once(task)
    project.assert_nothing_left()


def test_a_workspace_the_agent_destroyed_fails_its_task_and_nothing_else(
    project: AttemptProject,
) -> None:
    project.shell("shell", 'rm -rf "$PWD"')
    broken = project.submit(agent="shell", files=["a"])
    fine = project.submit("sleep 0.3", "write dir/b new", files=["dir/b"])
    project.serve()
    assert project.state(broken) is State.BLOCKED
    assert "cannot be read" in project.task(broken).reason
    assert project.state(fine) is State.DONE
    after = project.submit("write a new", files=["a"])
    project.serve()
    assert project.state(after) is State.DONE


def test_files_with_hostile_names_claim_themselves_alone(either: AttemptProject) -> None:
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


def test_a_secret_that_the_tail_of_stderr_cuts_in_two_is_not_kept(project: AttemptProject) -> None:
    """The last 4,096 bytes are read: without care they begin in the middle of the secret."""
    secret = "wJ4lrXUtn-first-half/K7MD3NG-second-half"
    half = len(secret) // 2
    project.environment["MY_API_KEY"] = secret
    letters = (4096 - half) // len("é".encode())
    fails = f"printf %s $MY_API_KEY >&2; printf 'é%.0s' $(seq {letters}) >&2; exit 3"
    project.shell("failing", fails, front="env: [MY_API_KEY]\n")
    task = project.submit(agent="failing")
    project.serve()
    assert "ééé" in project.task(task).reason
    assert secret[half:] not in str(look(project.url, "SELECT * FROM tasks"))
    assert secret[half:] not in str(look(project.url, "SELECT * FROM events"))


def repository(project: AttemptProject) -> str:
    [row] = look(project.url, "SELECT DISTINCT repo FROM tasks")
    return str(row["repo"])


def predicted(*claimed: str, may_touch: tuple[str, ...] = ()) -> TaskRequest:
    files = [(path, True, False) for path in claimed] + [(path, False, True) for path in may_touch]
    return TaskRequest(
        predicted=tuple(
            PredictedFile(
                path=path, probability=0.5, reason="r", clues={}, claimed=claims, may_touch=hub
            )
            for path, claims, hub in files
        )
    )


def test_a_task_with_predicted_files_claims_more_that_are_free_and_keeps_its_record(
    either: AttemptProject,
) -> None:
    request = predicted("a", may_touch=("run",))
    task = either.submit("write dir/b new", "write run changed", files=["a"], request=request)
    either.serve()
    assert either.state(task) is State.DONE
    [event] = either.events(task, "claims_extended")
    assert event.data["files"] == ["dir/b"]  # what it may touch is not claimed
    [record] = list_attempt_files(either.store, repository(either))
    assert sorted(record.changed) == ["dir/b", "run"]
    assert sorted(record.asked) == ["dir/b", "run"]
    assert [file.path for file in record.predicted] == ["a", "run"]
    assert look(either.url, "SELECT * FROM claims") == []
    assert "are a prediction" in (either.directory(task, 1) / "stdin").read_text()


def test_a_predicted_task_that_changed_a_file_of_another_is_done_again_with_it(
    project: AttemptProject,
) -> None:
    """Also a file that it may touch: a claim excludes every other task."""
    holder = project.submit("sleep 60", files=["dir/**"])
    request = predicted("a", may_touch=("dir/b",))
    task = project.submit("write a new", "write dir/b mine", files=["a"], request=request)
    project.serve(lambda: len(project.attempts(task)) == 1 and project.state(task) is State.READY)
    assert project.outcomes(task) == ["scope"]
    assert sorted(project.task(task).files) == ["a", "dir/b"]
    cancel(project.store, holder, now=time.time())
    project.serve()
    assert project.outcomes(task) == ["scope", "success"]
    latest, first = [
        record
        for record in list_attempt_files(project.store, repository(project))
        if record.task == task
    ]
    assert first.asked == ("dir/b",)
    assert sorted(latest.changed) == ["a", "dir/b"]
