"""One check: what counts as a pass, what it sees, and that nothing of it is left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from cases import each_case
from gate.gate_run import RUN, Stage, drive, gate_site, marked_processes, task
from weft import git
from weft.config import WorkspaceSettings
from weft.gate.check_run import find_telling_line, read_exit
from weft.model import TaskRequest
from weft.process.agent_process import Exit, StopReason
from weft.store import Store
from weft.store.database import Transaction
from weft.store.gate import read_gate, unblock_gate
from weft.store.leases import list_open, release, take
from weft.store.limit_table import set_limit
from weft.store.runs import get_run

T = TypeVar("T")


def bring_one(stage: Stage, **fields: object) -> None:
    stage.submit([task("a", **fields)])
    stage.bring("a", {"src/a": "a = 2\n"})


def sh(line: str) -> tuple[str, ...]:
    return ("sh", "-c", line)


PASSED = Exit(why=StopReason.ENDED, code=0, signal=None, unstarted="", swept=0, at=1.0)
FAILED = {
    "an exit code": replace(PASSED, code=1),
    "a signal": replace(PASSED, code=None, signal=9),
    "no program": replace(PASSED, code=None, unstarted="no such file"),
    "too much output": replace(PASSED, why=StopReason.OUTPUT),
    "stopped by somebody": replace(PASSED, why=StopReason.ASKED),
    "a wrapper that was killed": replace(PASSED, why=StopReason.LOST, code=None),
    "out of time": None,
}


def test_falsy_error_counted_as_success() -> None:
    """Nothing but an exit code of 0, by itself, is a pass.

    Weakened: whatever has no error to show is taken for a success.
    """

    def weakened(ended: Exit | None) -> bool:
        return not (ended and ended.code)

    assert read_exit(PASSED, "").passed
    assert [how for how, ended in FAILED.items() if read_exit(ended, "").passed] == []
    assert len([how for how, ended in FAILED.items() if weakened(ended)]) > 1


@each_case(
    ("output", "point"),
    [
        ("", ""),
        ("It ended with 1.", "It ended with 1."),
        ("a = 3\n===== 1 failed in 0.1s =====\nIt ended with 1.", "===== 1 failed in 0.1s ====="),
        ("x.py: bad\n-----\nmake: *** [test] Error 1\nIt ended with 2.", "x.py: bad"),
        ("not ok 1\n# fail 1\n# todo 0\n# duration_ms 48.1\nIt ended with 1.", "# fail 1"),
        ("starting\nIt took too long and was ended.", "It took too long and was ended."),
        ("x" * 1000, "x" * 119 + "…"),
    ],
)
def test_one_line_of_a_failed_checks_output_tells_most(output: str, point: str) -> None:
    assert find_telling_line(output) == point


def test_a_command_may_be_a_list_of_words(stage: Stage) -> None:
    bring_one(stage)
    drive(stage, lambda: stage.are(a="done"), run=("grep", "-q", "a = 2", "src/a"))


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("no-such-program",), "cannot start"),
        (sh("no-such-program"), "not found"),
    ],
)
def test_a_program_that_is_missing_on_the_base_too_blocks_the_gate_and_no_task(
    stage: Stage, command: tuple[str, ...], told: str
) -> None:
    bring_one(stage)
    drive(stage, lambda: bool(get_run(stage.store, stage.run).blocked), run=command)
    assert told in get_run(stage.store, stage.run).blocked
    assert stage.are(a="gating")


def test_a_check_that_is_killed_has_failed(stage: Stage) -> None:
    bring_one(stage)
    drive(stage, lambda: stage.are(a="ready"), run=sh("kill -9 $$"))
    assert "signal 9" in stage.reason("a")
    stage.judge()


def test_a_check_that_takes_too_long_is_ended_with_all_it_started(stage: Stage, home: Path) -> None:
    bring_one(stage)
    stray = f'trap "" TERM; echo $$ >> {home}/strays; exec sleep 600'
    forever = sh(f"setsid sh -c '{stray}' & setsid sh -c '{stray}' & sleep 600")
    drive(stage, lambda: stage.are(a="ready"), run=forever, timeout=3)
    assert "took too long" in stage.reason("a")
    strays = (home / "strays").read_text().split()
    assert len(strays) == 4, "twice: it is tried again before it is rejected"
    assert not any(Path(f"/proc/{pid}").exists() for pid in strays)
    stage.judge()


def test_what_a_check_leaves_running_ends_with_it(stage: Stage, home: Path) -> None:
    bring_one(stage)
    drive(stage, lambda: stage.are(a="done"), run=sh(f"sleep 600 & echo $! > {home}/stray"))
    assert not Path(f"/proc/{(home / 'stray').read_text().strip()}").exists()
    stage.judge()


def test_a_check_that_prints_without_end_is_ended_and_its_output_cut(stage: Stage) -> None:
    bring_one(stage)
    flood = sh("while :; do head -c 4000000 /dev/zero; sleep 0.05; done")
    drive(stage, lambda: stage.are(a="ready"), run=flood)
    assert "printed more than 64 MiB" in stage.reason("a")
    assert len(stage.reason("a")) < 20_000
    stage.judge()


def test_a_check_sees_as_little_of_the_environment_as_an_agent(stage: Stage, home: Path) -> None:
    bring_one(stage)
    secrets = {"API_KEY": "secret", "WEFT_STORE": "secret", "NAMED": "seen"}
    given = {**os.environ, **secrets}
    env = ("NAMED", "WEFT_STORE")
    drive(
        stage, lambda: stage.are(a="done"), run=sh(f"env > {home}/env"), environment=given, env=env
    )
    seen = (home / "env").read_text().splitlines()
    assert "NAMED=seen" in seen
    assert "WEFT_CHECK=1" in seen
    assert not any("secret" in line for line in seen)


def test_a_tasks_own_check_is_part_of_it(stage: Stage) -> None:
    stage.submit([task("a", request=TaskRequest(check="grep -q 'a = 2' src/a")), task("b")])
    stage.bring("a", {"src/a": "a = 3\n"})
    stage.bring("b", {"src/b": "b = 2\n"})
    drive(stage, lambda: stage.are(a="ready", b="done"))
    stage.bring("a", {"src/a": "a = 2\n"})
    drive(stage, lambda: stage.are(a="done"))
    stage.judge()


def test_without_any_check_all_that_merges_lands(stage: Stage) -> None:
    bring_one(stage)
    drive(stage, lambda: stage.are(a="done"), run=None)
    stage.judge()


def test_a_tree_that_passed_in_another_run_is_not_checked_again(stage: Stage, home: Path) -> None:
    count = sh(f"echo >> {home}/runs")
    bring_one(stage)
    drive(stage, lambda: stage.are(a="done"), run=count)
    again = replace(stage, run="r2")
    bring_one(again)
    drive(again, lambda: again.are(a="done"), run=count)
    assert len((home / "runs").read_text().splitlines()) == 1
    assert again.check_runs() == 0
    again.judge()
    other = replace(stage, run="r3")
    bring_one(other)
    drive(other, lambda: other.are(a="done"), run=(*count[:2], f"{count[2]} # otherwise"))
    assert len((home / "runs").read_text().splitlines()) == 2, "another way of checking is another"


def test_what_failed_elsewhere_is_looked_at_again(stage: Stage, home: Path) -> None:
    """A service that was down, say, and is mended since."""
    needs = sh(f"test -e {home}/up")
    bring_one(stage)
    drive(stage, lambda: stage.are(a="ready"), run=needs)
    (home / "up").touch()
    again = replace(stage, run="r2")
    bring_one(again)
    drive(again, lambda: again.are(a="done"), run=needs)


def test_an_edited_check_judges_anew(stage: Stage) -> None:
    """What passed the old commands has not passed the new ones."""
    bring_one(stage)

    class Stop(Exception):
        pass

    def leave(point: str) -> None:
        if point == "built":
            raise Stop("before it lands")

    drive(stage, lambda: "before it lands" in get_run(stage.store, RUN).blocked, at=leave)
    unblock_gate(stage.store, RUN, now=0)
    drive(stage, lambda: stage.are(a="ready"), run=("false",))


def test_no_more_checks_run_at_once_than_there_are_slots(stage: Stage, home: Path) -> None:
    stage.submit([task(name) for name in "abcdef"])
    for name in "abcdef":
        stage.bring(name, {f"src/{name}": "broken\n" if name in "bd" else f"{name} = 2\n"})
    # Those that live: one that is no longer needed is ended, and cleans up nothing.
    live = f"for p in {home}/c*; do kill -0 ${{p##*/c}} 2>/dev/null && echo $p; done"
    now = f"{{ {live}; }} | wc -l"
    other = f"for i in 1 2 3 4 5 6 7 8 9 10; do [ $({now}) -lt 2 ] || break; sleep 0.1; done"
    count = f"mkdir {home}/c$$; {other}; {now} >> {home}/seen; sleep 0.1; rmdir {home}/c$$"
    settled = {name: "ready" if name in "bd" else "done" for name in "abcdef"}
    drive(stage, lambda: stage.states() == settled, run=sh(f"{count}; ! grep -rq broken src"))
    assert max(int(line) for line in (home / "seen").read_text().split()) == 2
    stage.judge()


class Counting(Store):
    """A store that counts how often it is asked."""

    asked = 0

    def read(self, work: Callable[[Transaction], T]) -> T:
        self.asked += 1
        return super().read(work)


def test_checks_wait_for_room_among_all_requests_and_not_busily(stage: Stage) -> None:
    set_limit(stage.store, "requests", 1, now=0)
    bring_one(stage)
    taken = take(stage.store, "check", "elsewhere", {"requests": 1}, worker="w", now=0)
    assert taken is not None
    counting = Counting(stage.store.database, stage.store.tuning)
    with gate_site(replace(stage, store=counting)) as site:
        until = time.monotonic() + 1
        drive(stage, lambda: time.monotonic() > until, site=site)
        assert 0 < counting.asked < 100
        assert read_gate(stage.store, RUN).verdicts == ()
        release(stage.store, taken, now=0)
        drive(stage, lambda: stage.are(a="done"), site=site)
    stage.judge()


def test_abort_settles_pool_early(stage: Stage, home: Path) -> None:
    """A gate that is left has no check alive, and no lease ended before its check had."""
    stage.submit([task(name) for name in "abcdef"])
    for name in "abcdef":
        stage.bring(name, {f"src/{name}": f"{name} = 2\n"})
    stubborn = sh(f"trap '' TERM; echo $$ >> {home}/alive; while :; do sleep 0.05; done")
    drive(stage, lambda: started(home) == 2, run=stubborn, every_commit=True)
    assert marked_processes(stage.store) == []
    assert [one.kind for one in list_open(stage.store)] == ["run"]
    stage.judge()


def started(home: Path) -> int:
    path = home / "alive"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_set_up_that_the_candidate_broke_is_its_failure(stage: Stage) -> None:
    stage.submit([task("a"), task("b")])
    stage.bring("a", {"src/a": "broken\n"})
    stage.bring("b", {"src/b": "b = 2\n"})
    setup = WorkspaceSettings(setup=sh("! grep -n broken src/a"))
    drive(stage, lambda: stage.are(a="ready", b="done"), run=("true",), workspace=setup)
    assert "set-up command failed" in stage.reason("a")
    assert "1:broken" in stage.reason("a")
    stage.judge()


def test_a_set_up_that_fails_without_candidates_blames_nobody(stage: Stage, home: Path) -> None:
    bring_one(stage)
    setup = WorkspaceSettings(setup=sh(f"test -e {home}/up || {{ echo no service; exit 1; }}"))
    drive(stage, lambda: "no service" in get_run(stage.store, RUN).blocked, workspace=setup)
    assert stage.are(a="gating")
    (home / "up").touch()
    unblock_gate(stage.store, RUN, now=0)
    drive(stage, lambda: stage.are(a="done"), workspace=setup)
    stage.judge()


def test_what_a_check_writes_or_commits_is_kept_nowhere(stage: Stage) -> None:
    bring_one(stage)
    before = git.list_refs(stage.root, "refs/weft")  # the candidate of the attempt
    mess = (
        "echo x > new; echo y > src/b; git add -A; git -c user.name=x -c user.email=y commit -qm z"
    )
    drive(stage, lambda: stage.are(a="done"), run=sh(f"{mess}; echo more > more; mkdir -p d/.git"))

    assert git.list_refs(stage.root, "refs/weft") == before
    assert stage.show("src/b") == "b = 1"
    stage.judge()


def test_a_check_whose_weft_slept_too_long_is_run_again(stage: Stage, home: Path) -> None:
    """Its watchdog ended it: that is no failure of the candidate."""
    hasty = msgspec.structs.replace(stage.store.tuning, gone_after=0.3, heartbeat=30)
    slept = replace(stage, store=type(stage.store)(stage.store.database, hasty))
    bring_one(slept)
    wait = sh(f"echo $$ >> {home}/alive; test $(wc -l < {home}/alive) -gt 1 || sleep 600")
    drive(slept, lambda: slept.are(a="done"), run=wait)
    assert started(home) == 2
    assert [one.passed for one in read_gate(stage.store, RUN).verdicts] == [True]


def test_a_verdict_counts_only_for_what_was_copied_and_linked_then(stage: Stage) -> None:
    """Weakened, a way of checking is named by the names of what is brought alone: the second run
    lands by the verdict of the first, without a check."""
    (stage.root / ".git/info/exclude").write_text(".env\ndeps\n")
    (stage.root / ".env").write_text("ok\n")
    (stage.root / "deps").mkdir()
    (stage.root / "deps/lock").write_text("1\n")
    how: dict[str, Any] = {
        "workspace": WorkspaceSettings(copy=(".env",), link=("deps",)),
        "run": sh("grep -q ok .env && grep -q 1 deps/lock"),
    }
    for name, (env, lock, state) in {
        "r1": ("ok", "1", "done"),
        "r2": ("no", "1", "ready"),
        "r3": ("ok", "2 and more", "ready"),
        "r4": ("ok", "1", "done"),
    }.items():
        (stage.root / ".env").write_text(f"{env}\n")
        (stage.root / "deps/lock").write_text(f"{lock}\n")
        one = replace(stage, run=name)
        bring_one(one)
        drive(one, lambda one=one, state=state: one.are(a=state), **how)  # type: ignore[misc]  # bound now
        assert one.check_runs() > 0, name


def test_a_tree_that_passed_with_the_same_things_copied_is_not_checked_again(stage: Stage) -> None:
    (stage.root / ".git/info/exclude").write_text(".env\n")
    how: dict[str, Any] = {"workspace": WorkspaceSettings(copy=(".env",)), "run": sh("true")}
    for name in ("r1", "r2"):
        (stage.root / ".env").write_text("ok\n")
        one = replace(stage, run=name)
        bring_one(one)
        drive(one, lambda one=one: one.are(a="done"), **how)  # type: ignore[misc]  # bound now
        assert one.check_runs() == (1 if name == "r1" else 0)


def test_a_verdict_on_what_is_not_copied_any_more_is_found_out_again(
    stage: Stage, home: Path
) -> None:
    """Weakened, the check that got the old file answers for the new one."""
    (stage.root / ".git/info/exclude").write_text(".env\n")
    (stage.root / ".env").write_text("ok\n")
    bring_one(stage)
    # The check itself stands for a user who edits the file while it runs.
    line = f"mkdir {home}/once && echo no > {stage.root}/.env; grep -q ok .env"
    how: dict[str, Any] = {"workspace": WorkspaceSettings(copy=(".env",)), "run": sh(line)}
    drive(stage, lambda: stage.are(a="ready"), **how)
    assert [one.passed for one in read_gate(stage.store, RUN).verdicts] == [False, False]


def test_what_is_copied_may_change_all_the_time(stage: Stage) -> None:
    """Weakened, every check finds that the file has changed, and nothing ever lands."""
    (stage.root / ".git/info/exclude").write_text("rows\n")
    (stage.root / "rows").write_text("1\n")
    bring_one(stage)
    how: dict[str, Any] = {
        "workspace": WorkspaceSettings(copy=("rows",)),
        "run": sh(f"echo >> {stage.root}/rows"),
    }
    drive(stage, lambda: stage.are(a="done"), **how)
    assert len(read_gate(stage.store, RUN).verdicts) == 1
    stage.judge()
