"""A whole run on a PostgreSQL behind a pooler, which is killed while agents work."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from end_to_end.run_project import RunProject
from postgres_cluster import pooler_of, running_cluster
from wait_until import PATIENCE, wait_until

pytestmark = pytest.mark.timeout(600)


def plan(journal: Path, go: Path) -> str:
    """Tasks whose agents keep a journal of their own, and wait for each other."""
    tasks = [
        f"- [ ] Task {n}: Do {n}\n  <!-- files: src/t{n} -->\n"
        f"  - script: until echo {n} >> {journal}\n"
        f"  - script: until test -e {go}\n"
        f"  - script: write src/t{n} done\n"
        for n in range(1, 7)
    ]
    return "# Work\n\n## Phase 1: All\n<!-- execution: parallel -->\n\n" + "\n".join(tasks)


def test_a_run_goes_on_when_its_server_was_killed_behind_a_pooler(tmp_path: Path) -> None:
    """The agents work on meanwhile, within T1; none is started twice, and all work lands once."""
    journal, go = tmp_path / "journal", tmp_path / "go"
    with running_cluster() as cluster, pooler_of(cluster, "postgres") as pooled:
        project = RunProject(tmp_path, pooled)
        try:
            project.plan.write_text(plan(journal, go))
            run = project.start("run", "plan.md", "--slots", "3", "--json")
            wait_until(lambda: journal.exists() and len(journal.read_text().split()) == 3)
            cluster.kill()
            go.touch()
            cluster.start()
            out, err = run.communicate(timeout=PATIENCE)
            assert run.returncode == 0, (out, err)
            assert Counter(journal.read_text().split()) == {str(n): 1 for n in range(1, 7)}
            project.assert_landed_once(*project.states())
            assert [project.landed(f"src/t{n}") for n in range(1, 7)] == ["done\n"] * 6
        finally:
            project.close()
