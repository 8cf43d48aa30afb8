"""The output of an attempt on a host is shown at home; its raw lines come from the host."""

from __future__ import annotations

import signal

import pytest

from end_to_end.run_project import RunProject
from end_to_end.worker_hosts import WorkerHosts
from wait_until import PATIENCE, wait_until
from weft.project.project import get_local_project
from weft.runs.attempt_output import TaskLog, read_prompt
from weft.runs.log_pages import LogPage, LogPages
from weft.store.tasks import get_task

pytestmark = pytest.mark.timeout(100)

SECRET = "violet tango marzipan 42"  # of no shape that home would know
AGENT = """---
runs: [sh, -c, {script}]
sandbox: off
env: [ACME_API_KEY]
---
{{{{ task.text }}}}
"""
SCRIPT = (
    '"cat > /dev/null; echo key $ACME_API_KEY; echo plain words; echo trouble >&2; echo x > src/a"'
)


def read_page(project: RunProject, task: int) -> LogPage:
    """Read the log that the page shows."""
    place = get_local_project(project.root, project.environment)
    with place.open_store() as store:
        row = get_task(store, task)
        log = TaskLog(project=place, store=store, task=row, stream="stdout", raw=False)
        [match] = LogPages().search(log, log.get_attempt(None), "Plain Words")
        assert match == (2, "plain words")
        return LogPages().read(log, log.get_attempt(None), None, 10)


def read_task_prompt(project: RunProject, task: int) -> str:
    place = get_local_project(project.root, project.environment)
    with place.open_store() as store:
        row = get_task(store, task)
        log = TaskLog(project=place, store=store, task=row, stream="stdout", raw=False)
        return read_prompt(log, log.get_attempt(None))


def test_raw_output_is_fetched_from_its_host_without_the_secrets_of_the_host(
    hosts: WorkerHosts,
) -> None:
    project = hosts.project
    project.write(**{".weft/agents/acme.md": AGENT.format(script=SCRIPT)})
    go = hosts.keep_home_busy()
    join = str(hosts.join_token())
    worker = hosts.start("far", "--token-file", join, "--slots", "1", ACME_API_KEY=SECRET)
    [host] = hosts.wait_registered(1)
    project.plan.write_text("## P\n- [ ] Make a\n  <!-- files: src/a; agent: acme -->\n")
    run = project.start("run", "plan.md")
    wait_until(lambda: project.rows("SELECT * FROM attempts WHERE outcome = 'success'"))
    [attempt] = project.rows("SELECT * FROM attempts WHERE outcome = 'success'")
    task = str(attempt["task"])
    assert attempt["worker"].startswith(f"{host}-")
    readable, followed, raw, errors = (
        project.weft("logs", task, *options) for options in ((), ("-f",), ("--raw",), ("--stderr",))
    )
    for shown in (readable, followed, raw):
        assert "plain words" in shown.stdout, shown.stderr
    assert "trouble" in errors.stdout, errors.stderr
    assert SECRET not in readable.stdout + followed.stdout + raw.stdout + errors.stdout
    assert "key " in raw.stdout
    assert read_task_prompt(project, attempt["task"]).startswith("Make a\n")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=PATIENCE) == 0
    away = project.weft("logs", task, "--raw")
    assert away.returncode == 1
    assert f"in the mirror of the host {host}, of which no worker runs now" in away.stderr
    assert "plain words" in project.weft("logs", task).stdout, "reports are at home"
    page = read_page(project, attempt["task"])
    assert (page.first, page.total) == (1, len(page.lines))
    assert "plain words" in page.lines
    go.touch()
    assert run.wait(timeout=PATIENCE) == 0
