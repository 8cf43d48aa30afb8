"""Commands at home show an attempt and a check of a worker host, and name that host."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from end_to_end.run_project import TESTED
from end_to_end.worker_hosts import WorkerHosts, open_hosts
from wait_until import PATIENCE

pytestmark = pytest.mark.timeout(100)

PLAN = """## P
- [ ] Make a
  <!-- files: src/a; needs_labels: far -->
  - script: write src/a landed words
  - script: use 10 10 3.00
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[WorkerHosts]:
    with open_hosts(tmp_path, "--no-work") as opened:
        yield opened


def end(worker: subprocess.Popen[str]) -> list[dict[str, object]]:
    """Interrupt a worker; return the lines it printed."""
    worker.terminate()
    return [json.loads(line) for line in worker.communicate(timeout=PATIENCE)[0].splitlines()]


def test_diff_why_report_and_cost_show_the_work_of_a_host(hosts: WorkerHosts) -> None:
    project = hosts.project
    project.settings(TESTED)
    project.commit()
    project.plan.write_text(PLAN)
    hosts.serve()
    project.start("worker", "--checks", "no", "--slots", "1")
    token = str(hosts.join_token("--checks"))
    worker = hosts.start("far", "--token-file", token, "--slots", "1", "--label", "far")
    [host] = hosts.wait_registered(1)
    answer = project.run("plan.md")
    assert {task["state"] for task in answer["tasks"]} == {"done"}

    assert "+landed words" in project.weft("diff", "1.1").stdout
    assert f"▶ attempt 1 (implement) on {host}, took" in project.weft("why", "1.1").stdout
    assert json.loads(project.weft("why", "1.1", "--json").stdout)["attempts"][0]["host"] == host
    assert f"on {host}: 1 attempt, 1 check\n" in project.weft("report").stdout
    assert "$3.00" in project.weft("report", "--cost").stdout

    [verdict] = project.rows("SELECT * FROM verdicts WHERE host <> ''")
    printed = end(worker)
    [taken] = [line for line in printed if line["event"] == "lease_taken"]
    [checked] = [line for line in printed if line["event"] == "checked"]
    assert taken["tree"] == checked["tree"] == verdict["tree"]
    assert checked["passed"] is True
