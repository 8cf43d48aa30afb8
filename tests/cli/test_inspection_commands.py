"""What people see of tasks and runs: on both stores, with rows that the store's own verbs made."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from cli.in_process import Tell, teller, told
from cli.shell import (
    make_project,
    runs,
    started,
    wait_line,
    weft,
)
from repositories import content, git
from store_helpers import hire, put, url
from wait_until import PATIENCE
from weft.candidate_records import CheckVerdict, MergeConflict
from weft.cli import weft as group
from weft.errors import InputError, Refused
from weft.model import HUMAN, NewRun, NewTask, Outcome, State, TaskRequest
from weft.store import Store
from weft.store.admission import admit_task, drain
from weft.store.attempt_end import finish
from weft.store.attempt_reports import report
from weft.store.gate import block_gate, read_gate, record_conflict, record_verdict
from weft.store.leases import take
from weft.store.limit_table import stop_agent
from weft.store.runs import end_finished, submit_run
from weft.store.tasks import cancel, pause, submit

__all__ = ["url"]

B, C = "b" * 40, "c" * 40


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


@pytest.fixture
def tell(project: Path, url: str) -> Tell:
    return teller(project, url)


def run(store: Store, *tasks: NewTask, name: str = "plan-1", **limits: int) -> dict[str, int]:
    new = NewRun(id=name, repo="r", base=B, limits=limits)
    return submit_run(store, new, tasks, now=time.time())


def work(name: str, **fields: Any) -> NewTask:
    title = fields.pop("title", f"Make {name}")
    given = {"name": name, "agent": "a", "files": (name,), "request": TaskRequest(title=title)}
    return NewTask(**{**given, **fields})


def start(store: Store, task: int) -> int:
    [grant] = admit_task(store, "w", task, now=time.time())
    return grant.fence


def end(store: Store, fence: int, state: State, kind: str = "success", **fields: Any) -> None:
    finish(store, fence, Outcome(state=state, kind=kind, **fields), now=time.time())


def test_ps_says_that_nothing_is_under_way(tell: Tell) -> None:
    assert tell("ps") == "No task is under way.\n"
    assert told(tell, "ps")["tasks"] == []


def test_hosts_are_listed_with_slots_labels_checks_and_signs_of_life(
    store: Store, tell: Tell
) -> None:
    limits = {"ram_mb": 1000, "port": 10}
    hire(store, "w", host="far", labels=("gpu",), host_limits=limits, now=time.time())
    hire(store, "v", host="two", gates=False, lacks={"try": "KEY is not set"}, now=time.time())
    put(store, demand={"worker:@": 1, "label:gpu": 1})
    put(store, "u", demand={"worker:@": 1, "label:gpu": 1})
    start(store, 1)
    lines = tell("ps").splitlines()
    assert re.fullmatch(r"  far  1 of 8 slots · gpu · gates, checks · seen \S+ s ago", lines[-2])
    assert re.fullmatch(r"  two  0 of 8 slots · no checks · seen \S+ s ago", lines[-1])
    seen = told(tell, "ps")
    assert [(host["host"], host["labels"]) for host in seen["hosts"]] == [
        ("far", ["gpu"]),
        ("two", []),
    ]
    assert seen["wanted_slots"] == [{"repo": "r", "labels": ["gpu"], "slots": 1}]
    assert re.search(r"^far +1 of 8 +0 of 1,000 +0 of 10 +gates, checks", tell("limits"), re.M)
    assert told(tell, "limits")["hosts"][0]["slots"]["current"] == 1
    assert "two: KEY is not set (for try)." in tell("agents")
    assert told(tell, "agents")["hosts"][1] == {"host": "two", "lacks": {"try": "KEY is not set"}}


def test_ps_shows_first_what_needs_a_person(store: Store, tell: Tell) -> None:
    hire(store, now=time.time())
    numbers = run(
        store,
        work("1.1"),
        work("1.2"),
        work("1.3", needs=("1.2",)),
        NewTask(name="1.4", agent=HUMAN, text="Agree?\nDetails"),
        work("1.5"),
        work("1.6", needs=("1.5",)),
        work("1.7"),
        NewTask(name="barrier", needs=("1.7",)),
    )
    start(store, numbers["1.1"])
    end(store, start(store, numbers["1.2"]), State.BLOCKED, "other", reason="Which\ncolour?")
    cancel(store, numbers["1.5"], now=time.time())
    end(store, start(store, numbers["1.7"]), State.GATING, candidate=C, base=B)
    store.write(lambda tx: stop_agent(tx, "a", "not logged in", now=time.time()))
    fence = take(store, "gate", "plan-1", {"gate:plan-1": 1}, worker="w", now=time.time())
    assert fence is not None
    block_gate(store, fence, "plan-1", "trunk moved", now=time.time())
    drain(store, now=time.time())
    shown = tell("ps")
    lines = shown.splitlines()
    assert lines[0] == "NEEDS YOU"
    assert [line for line in lines if line.startswith("  ! ")] == [
        lines[1],  # since when it is drained
        "  ! the gate of plan-1 needs you: trunk moved",
        "  ! agent a is stopped: not logged in",
        "  ! plan-1/1.2 needs you: Which",
        "  ! plan-1/1.4 asks you: Agree?",
        "  ! plan-1/1.5 is cancelled, and other tasks need it",
    ]
    assert "drained" in lines[1]
    assert "`weft retry plan-1/1.2` or `weft skip plan-1/1.2`" in shown
    assert "`weft answer plan-1/1.4 --yes`" in shown
    assert lines.index("WORKING") < lines.index("TESTING") < lines.index("RUNS")
    # Barriers are nobody's work.
    assert lines[lines.index("RUNS") + 1].startswith(
        "  plan-1: 0 of 7 done, 1 working, 1 testing, 1 needs you, 1 ready"
    )
    found = told(tell, "ps")
    assert [one["do"] for one in found["needs_you"]][:2] == [
        ["weft drain --undo"],
        ["weft resume plan-1"],
    ]
    assert found["runs"][0]["tasks"]["running"] == 1


def test_ps_counts_what_belongs_to_no_run_by_its_state(store: Store, tell: Tell) -> None:
    for name in ("1", "2"):
        submit(store, work(name), repo="r", now=time.time())
    assert "  without a run: 2 ready" in tell("ps").splitlines()
    assert told(tell, "ps")["runs"] == [
        {"run": None, "waiting": False, "gate": None, "tasks": {"ready": 2}}
    ]


def test_the_budget_of_a_run_is_shown_and_set_in_dollars(store: Store, tell: Tell) -> None:
    run(store, work("1.1"), usd=3_000_000)
    told = tell("limits", "set", "run:plan-1/usd", "$4.50")
    assert told == "The limit run:plan-1/usd is $4.50 from now on; it was $3.00.\n"
    assert any(
        line.split()[:3] == ["run:plan-1/usd", "$0.00", "$4.50"]
        for line in tell("limits").splitlines()
    )
    for odd in ("-1", "4500000", "nan", "much"):
        with pytest.raises(InputError, match="is in dollars, 0 or more and below a million"):
            tell("limits", "set", "run:plan-1/usd", odd)


def test_ps_says_that_the_agent_of_a_paused_task_goes_on(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1.1"), work("1.2"))
    start(store, numbers["1.1"])
    for task in numbers.values():
        pause(store, task, now=time.time())
    lines = tell("ps").splitlines()
    assert "then paused" in lines[lines.index("WORKING") + 1]
    assert "1.2" in lines[lines.index("PAUSED") + 1]


def test_what_others_wrote_cannot_steer_the_terminal(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1.1", title="Ring \x1b[2J the bell\x07"), work("1.2"))
    end(store, start(store, numbers["1.1"]), State.BLOCKED, "other", reason="\x1b]0;mine\x07")
    start(store, numbers["1.2"])
    for command in (("ps",), ("why", "1.1"), ("ps", "--queue")):
        assert not set(tell(*command)) & {"\x1b", "\x07"}


def test_json_cannot_steer_the_terminal_either(store: Store, tell: Tell) -> None:
    hire(store)
    hidden = "\x1b\x7f\x85\x9b2J\u200b\u202e\u2028\U000e0041"
    numbers = run(store, work("1.1", title=f"Ring {hidden} é 日本"))
    end(store, start(store, numbers["1.1"]), State.BLOCKED, "other", reason=f"{hidden} é")
    for command in (("ps", "--json"), ("why", "1.1", "--json")):
        text = tell(*command)
        assert all(c.isprintable() or c == "\n" for c in text)
        assert "é" in text
    assert told(tell, "why", "1.1")["reason"] == f"{hidden} é"


def test_why_says_what_a_task_waits_for(store: Store, tell: Tell) -> None:
    hire(store, slots=1)
    one = {"worker:@": 1}
    numbers = run(
        store,
        work("1.1", demand=one),
        work("1.2", demand=one, files=("1.1",), path_seconds=5),
        work("1.3", needs=("1.1",)),
        work("1.4", demand=one, path_seconds=9),
    )
    start(store, numbers["1.1"])
    shown = tell("why", "1.2")
    assert "  waiting for 1.1, which 1.1 is changing" in shown
    assert "  waiting for a free agent, 1 of 1 busy" in shown
    assert "place 2 of 2 ready, right behind plan-1/1.4" in shown
    assert "class standard, priority normal, 5 s of work on its longest path" in shown
    assert "  waiting for 1.1, which is working" in tell("why", "1.3")
    running = tell("why", "1.1")
    assert "working since" in running
    assert "attempt 1 by a at w" in running
    found = told(tell, "why", "1.2")
    assert [wait["kind"] for wait in found["waits"]] == ["file", "limit"]
    assert (found["place"]["number"], found["place"]["of"]) == (2, 2)


def test_why_tells_what_happened_before_without_what_agents_said(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1.1"), work("1.2"))
    fence = start(store, numbers["1.1"])
    report(store, fence, {"attempt": 1, "events": [{"type": "text", "text": "hm"}]}, now=1)
    end(store, fence, State.READY, "crash", reason="It fell over.", micro_usd=1_500_000)
    fence = start(store, numbers["1.1"])
    end(store, fence, State.BLOCKED, "other", reason="It gave up.")
    shown = tell("why", "plan-1/1.1")
    assert "needs you since" in shown
    assert ": It gave up." in shown
    assert "needs you: `weft retry plan-1/1.1` or `weft skip plan-1/1.1`" in shown
    before = shown.partition("before\n")[2].splitlines()
    assert [line.split("  ", 2)[2].split(",")[0] for line in before] == [
        "▶ attempt 1 (a)",
        "✗ attempt 1: crash: It fell over. → ready",
        "▶ attempt 2 (a)",
        "✗ attempt 2: It gave up. → needs you",
    ]
    assert "$1.50" in before[0]
    assert [one["kind"] for one in told(tell, "why", "1.1")["events"]] == ["attempt_finished"] * 2


def test_why_shows_the_gate_with_verdicts_and_conflicts(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1.1"), work("1.2"))
    for task in numbers.values():
        end(store, start(store, task), State.GATING, candidate=C, base=B)
    fence = take(store, "gate", "plan-1", {"gate:plan-1": 1}, worker="w", now=time.time())
    assert fence is not None
    first, second = (one.id for one in read_gate(store, "plan-1").entries)
    verdict = CheckVerdict(
        base=B,
        combination=(first, second),
        purpose="ladder",
        tree="t",
        check_id="c",
        commands=(),
        passed=False,
        seconds=2.0,
    )
    output = "one\nAssertionError: two"
    record_verdict(store, fence, "plan-1", verdict, output, now=time.time())
    conflict = MergeConflict(base=B, entry=second, after=(first,), report="both changed x.py")
    record_conflict(store, fence, "plan-1", conflict, now=time.time())
    shown = tell("why", "1.2")
    assert "gate: waiting for its tests, place 2 of 2" in shown
    assert "  ✗ check of 1.1, 1.2 in 2 s" in shown
    assert "      AssertionError: two" in shown
    assert "  ✗ does not merge after 1.1\n      both changed x.py" in shown
    gate = told(tell, "why", "1.2")["gate"]
    assert (gate["place"], gate["verdicts"][0]["passed"]) == (2, False)
    assert gate["conflicts"][0]["report"] == "both changed x.py"
    queue = tell("ps", "--queue")
    assert (
        "gate of plan-1\n   1  1.1  waiting for its tests\n   2  1.2  waiting for its tests\n"
        in queue
    )


def test_queue_lists_what_starts_next_and_what_holds_it_up(store: Store, tell: Tell) -> None:
    assert tell("ps", "--queue") == "No task is ready, and none waits for the gate.\n"
    hire(store, slots=1)
    one = {"worker:@": 1}
    numbers = run(store, work("1.1", demand=one, path_seconds=9), work("1.2", demand=one))
    first, second = tell("ps", "--queue").splitlines()
    assert first == "   1  plan-1/1.1  Make 1.1  [starts next]"
    assert second.startswith("   2")
    start(store, numbers["1.1"])
    assert "[waiting for a free agent, 1 of 1 busy]" in tell("ps", "--queue")
    assert told(tell, "ps", "--queue")["ready"][0]["waits"][0]["kind"] == "limit"


def test_cost_sums_by_run_task_and_agent(store: Store, tell: Tell) -> None:
    hire(store)
    usd = {"run:plan-1/usd": 2_000_000}
    numbers = run(
        store,
        work("1.1", demand=usd),
        work("1.2", demand=usd, agent="b"),
        work("1.3", demand=usd),
        usd=10_000_000,
    )
    for name, dollars in (("1.1", 500_000), ("1.2", 250_000)):
        end(
            store,
            start(store, numbers[name]),
            State.DONE,
            tokens=1000,
            micro_usd=dollars,
            spent={"run:plan-1/usd": dollars},
        )
    start(store, numbers["1.3"])
    alone = submit(store, NewTask(name="x", agent="a"), repo="r", now=time.time())
    end(store, start(store, alone), State.DONE, tokens=5, micro_usd=1_000_000)
    found = told(tell, "report", "--cost", "plan-1")["runs"]
    assert found[0]["budget"] == {"cap": 10_000_000, "spent": 750_000, "reserved": 2_000_000}
    assert {one["agent"]: one["micro_usd"] for one in found[0]["agents"]} == {
        "a": 500_000,
        "b": 250_000,
    }
    assert [one["name"] for one in found[0]["tasks"]] == ["1.1", "1.2", "1.3"]
    rows = [line.split() for line in tell("report", "--cost").splitlines()]
    assert ["plan-1", "2000", "$0.75", "$0.75", "$2.00", "$10.00"] in rows
    assert ["a", "3", "1005", "$1.50"] in rows
    assert "without a run" in tell("report", "--cost")
    with pytest.raises(InputError, match=r"There is no run 'plan-2'\. Did you mean plan-1\?"):
        tell("report", "--cost", "plan-2")


def test_a_spent_budget_is_still_known_when_its_run_has_ended(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1.1", demand={"run:plan-1/usd": 9}), usd=10)
    end(store, start(store, numbers["1.1"]), State.DONE, spent={"run:plan-1/usd": 7})
    end_finished(store, now=time.time())
    [found] = told(tell, "report", "--cost")["runs"]
    assert found["budget"] == {"cap": None, "spent": 7, "reserved": 0}


def test_what_an_agent_printed_elsewhere_is_read_from_its_reports(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1.1"))
    with pytest.raises(Refused, match="has not been started yet"):
        tell("logs", "1.1")
    fence = start(store, numbers["1.1"])
    with pytest.raises(Refused, match="is not here: it ran as w"):
        tell("logs", "1.1")
    said = [{"type": "text", "text": "hm\nso"}, {"type": "tool", "name": "edit", "detail": "x"}]
    report(store, fence, {"attempt": 1, "events": said}, now=time.time())
    assert tell("logs", "1.1") == "hm\nso\n→ edit x\n"
    with pytest.raises(InputError, match="has no attempt 2; its latest is 1"):
        tell("logs", "1.1", "--attempt", "2")


def test_without_a_commit_there_is_no_diff(store: Store, tell: Tell) -> None:
    run(store, work("1.1"))
    with pytest.raises(Refused, match=r"Task plan-1/1\.1 is ready and has left no commit"):
        tell("diff", "1.1")


def did(project: Path, text: str, *arguments: str) -> int:
    done = weft(project, "do", text, "--agent", "try", "--json", *arguments)
    return int(json.loads(done.stdout)["task"])


def test_logs_and_diff_of_a_real_attempt(project: Path) -> None:
    text = (
        "Hello\nscript: say one\nscript: print 1 [odd\nscript: tool look x\nscript: write f.txt hi"
    )
    task = did(project, text, "--files", "f.txt")
    tell = teller(project, f"sqlite:///{project / '.git' / 'weft' / 'weft.db'}")
    lines = tell("logs", str(task)).splitlines()
    assert lines[:3] == ["one", "[odd", "→ look x"]
    raw = tell("logs", str(task), "--raw").splitlines()
    assert json.loads(raw[0])["type"] == "started"
    assert tell("logs", str(task), "--stderr") == ""
    assert [json.loads(one)["text"] for one in tell("logs", str(task), "--json").splitlines()] == (
        lines
    )
    assert tell("logs", str(task), "-f").splitlines() == lines  # it has ended: so does this
    # Not on a terminal it is a patch that others can apply.
    patch = weft(project, "diff", str(task))
    assert patch.returncode == 0
    subprocess.run(["git", "apply"], cwd=project, input=patch.stdout, text=True, check=True)
    assert (project / "f.txt").read_text() == "hi\n"
    found = told(tell, "diff", str(task))
    assert (found["attempt"], found["landed"]) == (1, False)
    assert content(project, found["commit"], "f.txt") == "hi\n"


def test_logs_follow_a_task_over_its_attempts_to_its_end(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    seen = tmp_path / "seen"
    script = (
        f"Go\nscript: attempt 1: say first\nscript: attempt 1: until test -e {seen}\n"
        "script: attempt 1: crash KILL\nscript: say second\nscript: write f.txt hi"
    )
    with started(project, "do", script, "--agent", "try", "--files", "f.txt") as doing:
        wait_line(doing, "first")
        with started(project, "logs", "-f", "1") as following:
            wait_line(following, "first")
            seen.touch()
            output, errors = following.communicate(timeout=PATIENCE)
            assert following.returncode == 0, errors
        doing.communicate(timeout=PATIENCE)
    lines = output.splitlines()
    assert "second" in lines[lines.index("— attempt 2 —") :]


def test_an_agents_escape_codes_reach_no_terminal(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", odd=runs("printf", "a\\033[2Jb\\n"))
    weft(project, "do", "Hi", "--agent", "odd", "--files", "none")
    assert "a\N{REPLACEMENT CHARACTER}[2Jb\n" in weft(project, "logs", "1").stdout
    assert weft(project, "logs", "1", "--raw").stdout == "a\x1b[2Jb\n"  # byte by byte, to a file


def test_the_diff_of_a_landed_task_is_what_landed(tmp_path: Path) -> None:
    script = "---\nruns: scripted\ncommands: yes\n---\n{{ task.text }}\n"
    project = make_project(tmp_path / "project", implement=script)
    (project / "plan.md").write_text(
        "# Plan: Two\n\n## Phase 1: All <!-- execution: parallel -->\n\n"
        "- [ ] Task 1.1: One\n  <!-- files: one.txt -->\n  - script: write one.txt 1\n"
        "- [ ] Task 1.2: Two\n  <!-- files: two.txt -->\n  - script: write two.txt 2\n"
    )
    done = weft(project, "run", "plan.md", "--no-tty", "--json")
    assert done.returncode == 0, done.stderr
    run_id = json.loads(done.stdout)["run"]
    patch = weft(project, "diff", "1.2").stdout
    assert patch == weft(project, "diff", f"{run_id}/1.2").stdout
    assert "+2" in patch
    assert "one.txt" not in patch
    tell = teller(project, f"sqlite:///{project / '.git' / 'weft' / 'weft.db'}")
    found = told(tell, "diff", f"{run_id}/1.2")
    assert found["landed"]
    assert git(project, "branch", "--contains", found["commit"], "--list", "weft/*").strip()
    assert "gate: landed" in tell("why", f"{run_id}/1.1")


def test_watch_prints_what_happens_until_interrupted(store: Store, project: Path) -> None:
    hire(store)
    numbers = run(store, work("1.1"))
    with started(project, "watch", WEFT_STORE=store.url) as watching:
        assert "  plan-1  run submitted, 1 task" in wait_line(watching, "run submitted")
        fence = start(store, numbers["1.1"])
        assert "plan-1/1.1  ▶ attempt 1 at w" in wait_line(watching, "attempt 1")
        end(store, fence, State.BLOCKED, "other", reason="Which colour?")
        assert "Which colour?" in wait_line(watching, "→ needs you")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=PATIENCE) == 130
    with started(project, "watch", "--json", WEFT_STORE=store.url) as watching:
        assert json.loads(wait_line(watching, "task_admitted"))["data"]["worker"] == "w"


def complete(directory: Path, url: str, *words: str) -> list[str]:
    """The words a shell would offer for the last one."""
    shell = ShellComplete(group, {}, "weft", "_WEFT_COMPLETE")
    with CliRunner(env={"WEFT_STORE": url}).isolation():
        found = shell.get_completions(["-C", str(directory), *words[:-1]], words[-1])
    return [one.value for one in found]


def test_shells_complete_tasks_and_runs(store: Store, project: Path, tmp_path: Path) -> None:
    run(store, work("1.1"), work("1.2"), NewTask(name="barrier"))
    run(store, work("1.2"), work("2.1"), name="other-2")
    assert complete(project, store.url, "why", "2.") == ["2.1"]
    assert complete(project, store.url, "why", "1.") == ["1.1"]
    assert complete(project, store.url, "cancel", "pl") == ["plan-1", "plan-1/1.2"]
    assert complete(project, store.url, "cancel", "plan-1/") == ["plan-1/1.2", "plan-1/1.1"]
    assert complete(project, store.url, "report", "") == ["other-2", "plan-1"]
    # Whatever goes wrong is silent, and makes no store.
    assert complete(project, "postgresql://127.0.0.1:1/x", "why", "1") == []
    assert complete(tmp_path, store.url, "why", "1") == []
    absent = tmp_path / "absent.db"
    assert complete(project, f"sqlite:///{absent}", "why", "1") == []
    assert not absent.exists()


def test_why_shows_the_failed_command_its_last_lines_and_a_line_that_reproduces_it(
    tmp_path: Path,
) -> None:
    script = "---\nruns: scripted\n---\n{{ task.text }}\n"
    project = make_project(tmp_path / "project", implement=script)
    (project / "weft.toml").write_text('[gate]\nrun = "seq 30 && grep -q good one.txt"\n')
    (project / "one.txt").write_text("good\n")
    (project / "plan.md").write_text(
        "# Plan: One\n\n## Phase 1: All\n\n- [ ] Task 1.1: One\n  <!-- files: one.txt -->\n"
        "  - script: write one.txt bad\n"
    )
    git(project, "add", ".")
    git(project, "commit", "-qm", "plan")
    assert weft(project, "run", "plan.md", "--no-tty").returncode == 1
    tell = teller(project, f"sqlite:///{project / '.git' / 'weft' / 'weft.db'}")
    shown = tell("why", "1.1").splitlines()
    failed = shown.index("    failed: seq 30 && grep -q good one.txt")
    assert shown[failed + 1].strip() == "12", "the last 20 lines, the exit code among them"
    [line] = {one.partition("reproduce: ")[2] for one in shown if "    reproduce: " in one}
    again = subprocess.run(
        ["sh", "-c", line], cwd=project, capture_output=True, text=True, check=False
    )
    assert again.returncode == 1
    assert again.stdout.splitlines()[-1] == "30", "the check ran, and on the refused tree"
    fixed = subprocess.run(["sh", "-c", line.replace("good", "bad")], cwd=project, check=False)
    assert fixed.returncode == 0, "the tree is that of the task, not that of the checkout"
    verdicts = told(tell, "why", "1.1")["gate"]["verdicts"]
    assert verdicts[-1]["reproduce"] == line


def test_why_says_that_a_task_is_being_checked_now(store: Store, tell: Tell) -> None:
    hire(store)
    numbers = run(store, work("1.1"), work("1.2"))
    for task in numbers.values():
        end(store, start(store, task), State.GATING, candidate=C, base=B)
    first, second = (entry.id for entry in read_gate(store, "plan-1").entries)
    take(store, "check", "plan-1", {}, worker="w", now=time.time(), entries=[first, second])
    checked = r"gate: being checked now, for [0-9.]+ s, together with 1\.1"
    assert re.search(checked, tell("why", "1.2"))
    assert told(tell, "why", "1.1")["gate"]["checked_since"] is not None


def test_why_names_a_stopped_agent_and_an_empty_budget_before_the_task_is_ready(
    store: Store, tell: Tell
) -> None:
    hire(store)
    usd = {"run:plan-1/usd": 2_000_000}
    numbers = run(
        store, work("1.1", demand=usd), work("1.2", demand=usd, needs=("1.1",)), usd=3_000_000
    )
    fence = start(store, numbers["1.1"])
    end(store, fence, State.GATING, candidate=C, base=B, spent={"run:plan-1/usd": 2_500_000})
    store.write(lambda tx: stop_agent(tx, "a", "not logged in", now=time.time()))
    shown = tell("why", "1.2")
    assert "agent a is stopped: not logged in (`weft agents test a`" in shown
    assert "the budget of plan-1 is empty: $2.50 of $3.00 is spent" in shown
    assert len(told(tell, "why", "1.2")["obstacles"]) == 2
