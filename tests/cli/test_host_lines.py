"""Lines of commands about worker hosts and labels, at 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.in_process import Tell, teller
from cli.shell import make_project
from repositories import commit_all
from store_helpers import hire, put
from weft.cli.page_link import drop_address, keep_address
from weft.errors import InputError
from weft.operations import single_task
from weft.project.own_repository import get_repository
from weft.project.project import Project, get_local_project
from weft.store import Store

NEAR, FAR = "http://127.0.0.1:7337", "https://weft.example"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = make_project(tmp_path / "project")
    return get_local_project(root, {"PATH": "/usr/bin:/bin"})


@pytest.fixture
def store(project: Project) -> Iterator[Store]:
    with project.open_store() as store:
        yield store


@pytest.fixture
def tell(project: Project) -> Tell:
    return teller(project.root, project.store_url)


def test_advice_for_a_missing_label_names_the_server(
    project: Project, store: Store, tell: Tell
) -> None:
    hire(store, "plain")
    task = put(store, "t", demand={"worker:@": 1, "label:gpu": 1})
    for server in ("", f" --server {FAR}"):
        if server:
            keep_address(project, NEAR, FAR)
        command = f"`weft worker{server} --label gpu`"
        assert command in tell("ps")
        why = tell("why", str(task))
        assert "waiting for a worker with the label gpu: none is present\n" in why
        assert f"start it on a machine that has the label: {command}\n" in why
    drop_address(project, NEAR)
    assert "--server" not in tell("ps")
    both = put(store, "b", demand={"worker:@": 1, "label:gpu": 1, "label:arm64": 1})
    assert "on a machine that has the labels: `weft worker" in tell("why", str(both))


def test_long_lists_of_labels_are_shown_whole(store: Store, tell: Tell) -> None:
    labels = tuple(f"a-long-label-{number}" for number in range(6))
    hire(store, "one", host="far", labels=labels)
    assert f"labels of far: {', '.join(labels)}\n" in tell("limits")


def test_only_programs_that_no_present_host_has_are_missed(
    project: Project, store: Store, tell: Tell
) -> None:
    for name in "abc":
        file = project.root / ".weft" / "agents" / f"{name}.md"
        file.write_text("---\nruns: [no-such-program]\n---\n{{ task.text }}\n")
    tasks = "".join(
        f"- [ ] Make {name}\n  <!-- files: {name}; agent: {name} -->\n" for name in "abc"
    )
    (project.root / "plan.md").write_text(f"## P\n{tasks}")
    commit_all(project.root)
    shown = tell("run", "plan.md", "--dry-run")
    [missing] = [line for line in shown.splitlines() if line.startswith("! Agent")]
    assert missing.startswith("! Agents a, b, c: no-such-program is not installed")
    lacks = {"c": "no-such-program is not installed"}
    repos = (get_repository(project.root, store),)
    hire(store, "far-1", host="far", gates=False, repos=repos, lacks=lacks)
    shown = tell("run", "plan.md", "--dry-run")
    assert "agent   a: no-such-program, on far (1 task)\n" in shown
    assert "! Agent c: no-such-program is not installed" in shown
    for name in "ab":
        assert single_task.check(project, "x", files=["x"], agent=name)
    with pytest.raises(InputError, match="no-such-program is not installed"):
        single_task.check(project, "x", files=["x"], agent="c")


def test_a_forecast_counts_only_slots_with_the_labels_that_agents_need(
    project: Project, store: Store, tell: Tell
) -> None:
    (project.root / ".weft" / "agents" / "gpu.md").write_text(
        "---\nruns: [sh, -c, 'true']\nneeds_labels: gpu\n---\n{{ task.text }}\n"
    )
    tasks = "".join(f"- [ ] Make {name}\n  <!-- files: {name}; agent: gpu -->\n" for name in "abc")
    (project.root / "plan.md").write_text(f"## P\n<!-- execution: parallel -->\n{tasks}")
    shown = tell("run", "plan.md", "--dry-run")
    assert "3 tasks, up to 3 at once" in shown
    assert "a worker with the label gpu" in shown, "a guess"
    hire(store, "far-1", slots=1, labels=("gpu",))
    assert "3 tasks, up to 1 at once" in tell("run", "plan.md", "--dry-run")


def test_a_worker_without_a_repository_is_told_where_to_start(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with pytest.raises(InputError, match=r"in no git repository.*--server URL"):
        teller(tmp_path, url)("worker")
