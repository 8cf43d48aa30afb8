"""Several tasks at once, other agents, lists of tasks and runs, workspaces and limits."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from cli.in_process import Tell, teller, told
from cli.shell import answer, make_project, runs, started, wait_line, weft
from repositories import commit_all, content, git, make_repository
from store_helpers import hire, state, url
from weft.cli.output import WIDTH
from weft.errors import InputError, Refused
from weft.model import HUMAN, NewRun, NewTask, Outcome, Stage, State, TaskKind, TaskRequest
from weft.store import Store
from weft.store.admission import admit_task
from weft.store.attempt_end import finish
from weft.store.messages import list_to_task
from weft.store.runs import end_finished, get_settings, submit_run
from weft.store.tasks import cancel, get_task, submit

__all__ = ["url"]

B = "b" * 40


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


@pytest.fixture
def tell(project: Path, url: str) -> Tell:
    return teller(project, url)


def work(name: str, **fields: Any) -> NewTask:
    stage = Stage(name="implement", agent="try", demand={"agent:try": 1, "gpu": 1})
    given = {
        "name": name,
        "agent": "try",
        "stage": "implement",
        "files": (name,),
        "demand": stage.demand,
        "request": TaskRequest(title=f"Make {name}", stages=(stage,)),
    }
    return NewTask(**{**given, **fields})


def run(store: Store, *tasks: NewTask, name: str = "plan-1", **limits: int) -> dict[str, int]:
    new = NewRun(id=name, repo="r", base=B, limits=limits)
    return submit_run(store, new, tasks, now=time.time())


def block(store: Store, *tasks: int) -> None:
    for task in tasks:
        [grant] = admit_task(store, "w", task, now=time.time())
        stuck = Outcome(state=State.BLOCKED, kind="other", reason="Which colour?")
        finish(store, grant.fence, stuck, now=time.time())


def test_several_tasks_are_retried_and_a_refusal_does_not_stop_the_rest(
    store: Store, tell: Tell
) -> None:
    hire(store)
    numbers = run(store, work("1"), work("2"), work("3"))
    block(store, numbers["1"], numbers["3"])
    [grant] = admit_task(store, "w", numbers["2"], now=time.time())
    finish(store, grant.fence, Outcome(state=State.DONE), now=time.time())
    with pytest.raises(InputError, match="no task or run 'plan-1/9'"):
        tell("retry", "plan-1/1", "plan-1/9")
    assert state(store, numbers["1"]) == "blocked", "no name is unknown before the first change"
    done = json.loads(tell("retry", "plan-1/1", "plan-1/2", "plan-1/3", "--json"))
    assert [one["task"] for one in done["results"]] == [numbers["1"], numbers["3"]]
    assert "is done" in done["refused"]["plan-1/2"]
    assert state(store, numbers["3"]) == "ready"


def test_all_means_the_tasks_that_need_a_person_of_one_run_or_of_every_run(
    store: Store, tell: Tell
) -> None:
    hire(store)
    first = run(store, work("1"), work("2"), NewTask(name="ask", agent=HUMAN))
    second = run(store, work("1"), NewTask(name="ask", agent=HUMAN), name="plan-2")
    block(store, first["1"], second["1"])
    assert "Task plan-1/1 is skipped" in tell("skip", "--all", "plan-1")
    assert (state(store, first["1"]), state(store, second["1"])) == ("skipped", "blocked")
    assert state(store, first["2"]) == "ready", "it needs no person"
    assert len(told(tell, "retry", "--all")["results"]) == 1
    assert state(store, second["1"]) == "ready"
    assert len(told(tell, "answer", "--yes", "--all")["results"]) == 2
    assert tell("answer", "--yes", "--all") == "There is no such task.\n"
    with pytest.raises(InputError, match=r"no run 'plan-3'\. Did you mean"):
        tell("skip", "--all", "plan-3")
    for words in ((), ("1", "--all")):
        with pytest.raises(InputError, match="Name one or more tasks, or give --all"):
            tell("retry", *words)


def test_all_cancels_every_unfinished_run_and_single_task(store: Store, tell: Tell) -> None:
    numbers = run(store, work("1"))
    single = submit(store, work("x"), repo="r", now=time.time())
    assert len(told(tell, "cancel", "--all")["results"]) == 2
    assert state(store, numbers["1"]) == state(store, single) == "cancelled"


def test_a_retry_with_another_agent_changes_the_stage_its_demand_and_the_runs_files(
    store: Store, project: Path, tell: Tell
) -> None:
    other = project / ".weft" / "agents" / "other.md"
    other.write_text("---\nruns: scripted\nprovider: p\n---\n{{ task.text }}\n")
    hire(store)
    numbers = run(store, work("1"))
    block(store, numbers["1"])
    with pytest.raises(InputError, match="no agent 'nobody'"):
        tell("retry", "plan-1/1", "--agent", "nobody")
    done = told(tell, "retry", "plan-1/1", "--agent", "other", "--note", "Keep the signature.")
    assert done["state"] == "ready"
    task = get_task(store, numbers["1"])
    assert (task.agent, task.request.stages[0].agent) == ("other", "other")
    assert task.demand["provider:p"] == task.demand["agent:other"] == task.demand["gpu"] == 1
    assert "agent:try" not in task.demand
    assert "other" in get_settings(store, "plan-1").agents
    [message] = list_to_task(store, task.id)
    assert (message.sender, message.text) == ("the user", "Keep the signature.")
    with pytest.raises(Refused, match="only a task that has ended or needs you"):
        tell("retry", "plan-1/1", "--note", "More.")


def test_the_note_of_a_retry_is_in_the_next_prompt_of_the_other_agent(project: Path) -> None:
    """A whole run: the first agent fails, a person names another and says why."""
    other = project / ".weft" / "agents" / "other.md"
    other.write_text("---\nruns: [sh, -c, 'cat > one.txt']\n---\n{{ task.text }}\n{{ messages }}\n")
    fails = project / ".weft" / "agents" / "implement.md"
    fails.write_text(runs("sh", "-c", "exit 3"))
    (project / "plan.md").write_text(
        "# Plan: One\n\n## Phase 1: All\n\n- [ ] Task 1.1: One\n  <!-- files: one.txt -->\n"
    )
    commit_all(project, "plan")
    assert weft(project, "run", "plan.md", "--no-tty").returncode == 1
    retried = weft(project, "retry", "1.1", "--agent", "other", "--note", "Mind the gap.")
    assert retried.returncode == 0, retried.stderr
    done = weft(project, "run", "--resume", "--no-tty", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    branch = json.loads(done.stdout)["branch"]
    assert "Mind the gap." in content(project, branch, "one.txt")


def test_tasks_lists_every_task_with_its_state_tries_and_title(store: Store, tell: Tell) -> None:
    hire(store)
    barrier = NewTask(name="barrier 1", request=TaskRequest(kind=TaskKind.BARRIER))
    numbers = run(store, work("1"), work("2", needs=("1",)), barrier)
    block(store, numbers["1"])
    single = submit(store, work("x"), repo="r", now=time.time())
    lines = tell("ps", "--tasks").splitlines()
    assert [line.split()[0] for line in lines] == ["TASK", "plan-1/1", "plan-1/2", str(single)]
    assert "needs you" in lines[1]
    assert "Make 2" in lines[2]
    listed = told(tell, "ps", "plan-1")["tasks"]
    assert [(one["task"], one["state"], one["attempts"]) for one in listed] == [
        (numbers["1"], "blocked", 1),
        (numbers["2"], "waiting", 0),
    ]
    with pytest.raises(InputError, match="Did you mean plan-1"):
        tell("ps", "--tasks", "plan-2")


def test_tables_fit_80_columns_however_long_their_last_cells_are(
    store: Store, project: Path, tell: Tell
) -> None:
    wordy = f"---\nruns: scripted\ndescription: {'very ' * 40}long\n---\n{{{{ task.text }}}}\n"
    (project / ".weft" / "agents" / "a-rather-long-name-of-an-agent.md").write_text(wordy)
    title = TaskRequest(title="word " * 60)
    run(store, work("1", request=title), name="a-plan-with-a-rather-long-name-20261116-1")
    tables = ("agents", "ps --tasks", "runs", "limits", "report --cost")
    for command in tables:
        for line in tell(*command.split()).splitlines():
            assert len(line) <= WIDTH or line.startswith(("weft:", "Run ")), (command, line)
    assert "…" in tell("ps", "--tasks")


def test_ps_shows_the_last_ended_runs_and_whether_they_are_merged(tmp_path: Path) -> None:
    script = "---\nruns: scripted\n---\n{{ task.text }}\n"
    project = make_project(tmp_path / "project", implement=script)
    (project / "plan.md").write_text(
        "# Plan: One\n\n## Phase 1: All\n\n- [ ] Task 1.1: One\n  <!-- files: one.txt -->\n"
        "  - script: write one.txt 1\n"
    )
    commit_all(project, "plan")
    ran = answer(project, "run", "plan.md", "--no-tty", "--json", "--no-write")["run"]
    here = teller(project, f"sqlite:///{project / '.git' / 'weft' / 'weft.db'}")
    assert f"  {ran}: 1 of 1 done, not merged (`weft land {ran}`)" in here("ps").splitlines()
    git(project, "merge", "--quiet", "--ff-only", f"weft/{ran}")
    assert f"  {ran}: 1 of 1 done, merged" in here("ps").splitlines()
    [ended] = told(here, "ps")["ended"]
    assert (ended["run"], ended["merged"]) == (ran, True)
    # The newest run is the default of these commands.
    assert f"✓ run {ran}: 1 task in 1 landing" in here("verify")
    assert told(here, "verify")["run"] == ran


def test_a_skipped_task_counts_alike_everywhere(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1"), work("2"))
    [grant] = admit_task(store, "w", numbers["1"], now=time.time())
    finish(store, grant.fence, Outcome(state=State.DONE), now=time.time())
    tell("skip", "plan-1/2")
    assert "plan-1: 1 of 2 done, 1 skipped" in tell("ps")
    end_finished(store, now=time.time())
    assert "1 of 2 done, 1 skipped" in tell("runs")
    assert "plan-1: 1 of 2 done, 1 skipped" in tell("ps")


def test_open_prints_the_workspace_while_the_agent_works_and_then_the_way_to_its_work(
    project: Path,
) -> None:
    go = project.parent / "go"
    text = f"x\nscript: write a.txt 1\nscript: say here\nscript: until test -e {go}"
    with started(project, "do", text, "--agent", "try") as doing:
        wait_line(doing, "here")
        found = answer(project, "open", "1", "--json")
        assert (Path(found["workspace"]) / "a.txt").read_text() == "1\n"
        assert found["running"]
        listed = weft(project, "open", "1", "--with", "ls")
        assert "a.txt" in listed.stdout
        go.touch()
        doing.communicate()
    gone = weft(project, "open", "1")
    assert gone.returncode == 1
    assert "`git worktree add --detach DIRECTORY" in gone.stderr
    assert weft(project, "open", "9").returncode == 2


def test_do_refuses_a_change_outside_its_files_and_keeps_the_work(project: Path) -> None:
    text = "x\nscript: write a.txt 1\nscript: write b.txt 2"
    refused = weft(project, "do", text, "--agent", "try", "--files", "a.txt")
    assert refused.returncode == 1
    assert "changed b.txt, and may change only a.txt" in refused.stdout
    [take] = [line for line in refused.stdout.splitlines() if "take anyway:" in line]
    assert content(project, take.split()[-1], "b.txt") == "2\n", "nothing is lost"
    kept = answer(
        project, "do", text, "--agent", "try", "--files", "a.txt", "--keep-outside", "--json"
    )
    assert kept["state"] == "done"
    assert content(project, kept["commit"], "b.txt") == "2\n"


def test_limits_say_where_each_value_came_from(tmp_path: Path, url: str) -> None:
    project = make_project(tmp_path / "project")
    (project / "weft.toml").write_text("[limits]\nrequests = 7\n")
    tell = teller(project, url)
    tell("limits", "set", "runs", "9")

    def sources() -> dict[str, str]:
        return {one["resource"]: one["source"] for one in told(tell, "limits")["limits"]}

    assert sources()["llm"] == "default"
    assert sources()["requests"] == "requests in weft.toml"
    assert sources()["runs"] == "weft limits set"


def test_repositories_with_the_same_store_share_its_limits(tmp_path: Path, url: str) -> None:
    first, second = (make_repository(tmp_path / name) for name in ("first", "second"))
    teller(first, url)("limits", "set", "llm", "2")
    shown = {
        one["resource"]: one["capacity"] for one in told(teller(second, url), "limits")["limits"]
    }
    assert shown["llm"] == 2


def test_a_cancelled_task_that_no_task_needs_is_not_retried_by_all(
    store: Store, tell: Tell
) -> None:
    numbers = run(store, work("1"), work("2"))
    cancel(store, numbers["1"], now=time.time())
    assert tell("retry", "--all") == "There is no such task.\n"
