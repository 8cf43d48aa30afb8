"""The gate of a run: everything good lands once, nothing bad does, and the tip is always green."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.landing import (
    candidate,
    drive,
    gate_site,
    make_repository,
    offer_candidate,
    run_git,
    states,
    submit,
    trunk,
)
from weft.model import NewTask
from weft.store import Store
from weft.store.gate import read_gate
from weft.store.runs import get_run
from weft.store.tasks import get_task

CHECK = ("sh", "-c", "! grep -rq broken .")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    make_repository(made, {"README": "hello\n", "src/a.py": "a = 1\n", "src/b.py": "b = 1\n"})
    return made


def task(name: str, *files: str, **fields: object) -> NewTask:
    return NewTask(name=name, files=files, demand={"worker:@": 1}, **fields)  # type: ignore[arg-type]  # as given


def test_what_passes_lands_as_one_commit_per_task(root: Path, store: Store) -> None:
    base = run_git(root, "rev-parse", "main")
    numbers = submit(store, root, [task("a", "src/a.py"), task("b", "src/b.py")])
    with gate_site(store, root, run=CHECK) as site:
        for name in "ab":
            made = candidate(root, base, {f"src/{name}.py": f"{name} = 2\n"}, f"Change {name}")
            offer_candidate(store, numbers[name], made, base)
        drive(site, lambda: set(states(store, numbers).values()) == {"done"})
    log = run_git(root, "log", "--format=%s", f"{base}..{trunk(root)}").splitlines()
    assert sorted(log) == ["Change a", "Change b"]
    assert run_git(root, "show", f"{trunk(root)}:src/a.py") == "a = 2"
    rows = read_gate(store, "r1")
    assert [one.state for one in rows.landings] == ["landed"] * len(rows.landings)
    assert rows.landings[-1].tree == run_git(root, "rev-parse", f"{trunk(root)}^{{tree}}")
    assert run_git(root, "status", "--short") == ""
    assert run_git(root, "rev-parse", "main") == base


def test_what_fails_goes_back_with_the_output_and_the_rest_lands(root: Path, store: Store) -> None:
    base = run_git(root, "rev-parse", "main")
    numbers = submit(store, root, [task("a", "src/a.py"), task("b", "src/b.py")])
    with gate_site(store, root, run=("sh", "-c", "! grep -rn broken src")) as site:
        bad = candidate(root, base, {"src/a.py": "broken\n"}, "Break a")
        good = candidate(root, base, {"src/b.py": "b = 2\n"}, "Change b")
        offer_candidate(store, numbers["a"], bad, base)
        offer_candidate(store, numbers["b"], good, base)
        drive(site, lambda: states(store, numbers) == {"a": "ready", "b": "done"})
    [rejected] = [one for one in read_gate(store, "r1").entries if one.state == "rejected"]
    assert rejected.tasks == (numbers["a"],)
    from weft.attempt.brief import refusal
    from weft.store.events import history

    assert "src/a.py:1:broken" in refusal(history(store, numbers["a"]))


def test_green_alone_and_red_together_sends_the_later_back(root: Path, store: Store) -> None:
    base = run_git(root, "rev-parse", "main")
    numbers = submit(store, root, [task("a", "src/a.py"), task("b", "src/b.py")])
    both = "! (grep -q 'a = 2' src/a.py && grep -q 'b = 2' src/b.py)"
    with gate_site(store, root, run=("sh", "-c", both)) as site:
        for name in "ab":
            made = candidate(root, base, {f"src/{name}.py": f"{name} = 2\n"}, f"Change {name}")
            offer_candidate(store, numbers[name], made, base)
        drive(site, lambda: states(store, numbers) == {"a": "done", "b": "ready"})


def test_a_conflict_sends_the_later_back_with_the_reason(root: Path, store: Store) -> None:
    base = run_git(root, "rev-parse", "main")
    numbers = submit(store, root, [task("a", "src/a.py"), task("b", "src/b.py")])
    with gate_site(store, root) as site:
        one = candidate(root, base, {"src/a.py": "a = 2\n"}, "Change a")
        other = candidate(root, base, {"src/a.py": "a = 3\n"}, "Change a too")
        offer_candidate(store, numbers["a"], one, base)
        offer_candidate(store, numbers["b"], other, base)
        drive(site, lambda: states(store, numbers) == {"a": "done", "b": "ready"})
    assert run_git(root, "show", f"{trunk(root)}:src/a.py") == "a = 2"


def test_a_trunk_that_somebody_moved_is_not_overwritten(root: Path, store: Store) -> None:
    base = run_git(root, "rev-parse", "main")
    numbers = submit(store, root, [task("a", "src/a.py")])
    foreign = candidate(root, base, {"x": "x\n"}, "Somebody's own")
    run_git(root, "branch", "weft/r1", foreign)
    with gate_site(store, root) as site:
        made = candidate(root, base, {"src/a.py": "a = 2\n"}, "Change a")
        offer_candidate(store, numbers["a"], made, base)
        drive(site, lambda: get_run(store, "r1").blocked != "")
    assert trunk(root) == foreign
    assert "somebody else moved it" in get_run(store, "r1").blocked
    assert get_task(store, numbers["a"]).state.value == "gating"
