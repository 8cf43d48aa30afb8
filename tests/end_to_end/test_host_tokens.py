"""A running worker renews the token of its host, and ends when the token is revoked."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from end_to_end.worker_hosts import WorkerHosts
from wait_until import PATIENCE, wait_until
from weft.project.worker_host import HostFiles, renew
from weft.store import open_store
from weft.store.tokens import create_join_token, join_host

pytestmark = pytest.mark.timeout(100)


def record_of(hosts: WorkerHosts) -> Path:
    [path] = (hosts.home_of("far") / ".local/state/weft/hosts").glob("*/host.json")
    return path


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


def age(path: Path, **fields: object) -> None:
    """Make the token look old, as a running worker finds it a day later."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps({**read(path), "since": 0.0, **fields}))
    draft.replace(path)


def test_a_running_worker_renews_its_token_and_ends_its_agents_when_it_is_revoked(
    hosts: WorkerHosts,
) -> None:
    project = hosts.project
    project.agent("idle", "", "script: say begun\nscript: hang\n")
    done = hosts.keep_home_busy()
    worker = hosts.start("far", "--token-file", str(hosts.join_token()))
    hosts.wait_registered(1)
    record = record_of(hosts)
    wait_until(lambda: read(record)["confirmed"])
    first = read(record)["secret"]
    age(record)
    wait_until(lambda: read(record)["secret"] != first and read(record)["confirmed"])
    renewed = read(record)["secret"]
    assert record.with_name("token").read_text() == renewed
    tokens = {row["id"]: row for row in project.rows("SELECT * FROM tokens WHERE worker > ''")}
    old, new = (tokens[secret.split("_")[1]] for secret in (first, renewed))
    assert old["expires"] < new["created"] + 600, "the old token ends soon"
    project.plan.write_text("## P\n- [ ] Idle\n  <!-- files: src/a; agent: idle -->\n")
    project.start("run", "plan.md")
    wait_until(lambda: project.rows("SELECT * FROM events WHERE kind = 'progress'"))
    assert project.weft("token", "revoke", new["id"]).returncode == 0
    assert worker.wait(timeout=PATIENCE) == 1
    assert worker.stderr is not None
    [sentence] = [line for line in worker.stderr.read().splitlines() if "token" in line]
    assert "takes the token of this host" in sentence
    assert "--token-file" in sentence
    assert all(row["departed"] for row in project.rows("SELECT * FROM workers WHERE gates = 0"))
    marked = [name for name in project.marked().values() if name != "1.1"]
    assert marked == [], "its agents were ended"
    done.touch()


def test_a_host_joins_anew_after_its_token_was_revoked_and_not_beside_a_worker(
    hosts: WorkerHosts,
) -> None:
    hosts.arguments = ("--no-work",)
    hosts.serve()
    worker = hosts.start("far", "--token-file", str(hosts.join_token()))
    [name] = hosts.wait_registered(1)
    again = ("--token-file", str(hosts.join_token("--checks")), "--exit-when-idle", "1s")
    refused = hosts.start("far", *again, "--checks", "yes")
    assert refused.wait(timeout=PATIENCE) == 2
    assert refused.stderr is not None
    assert "A worker of this host works for" in refused.stderr.read()
    [row] = hosts.project.rows("SELECT id FROM tokens WHERE worker = ?", name)
    assert hosts.project.weft("token", "revoke", row["id"]).returncode == 0
    assert worker.wait(timeout=PATIENCE) == 1
    left = hosts.start("far", "--leave")
    assert json.loads(left.communicate(timeout=PATIENCE)[0]) == {"left": [], "silent": []}
    assert left.returncode == 0, "nothing is to be left"
    assert not list(hosts.home_of("far").glob(".local/state/weft/hosts/*/token"))
    assert hosts.start("far", *again).wait(timeout=PATIENCE) == 0
    assert read(record_of(hosts))["host"] == name, "its earlier attempts are found under it"
    hosts.url = hosts.url.replace("127.0.0.1", "localhost")
    stranger = hosts.start("far", "--leave")
    assert stranger.wait(timeout=PATIENCE) == 2
    assert stranger.stderr is not None
    assert "it has joined http://127.0.0.1:" in stranger.stderr.read()


def test_work_that_home_refuses_needs_a_person_and_is_not_done_again(hosts: WorkerHosts) -> None:
    """The agent would be paid for again and again."""
    project = hosts.project
    go = hosts.place / "go"
    script = f"cat > /dev/null; while [ ! -e {go} ]; do sleep 0.05; done; echo x > src/a"
    project.shell("slow", script)
    agent = project.root / ".weft" / "agents" / "slow.md"
    agent.write_text(agent.read_text().replace("---\n", "---\nneeds_labels: far\n", 1))
    project.commit()
    project.plan.write_text("## P\n- [ ] Make a\n  <!-- files: src/a; agent: slow -->\n")
    hosts.serve()
    hosts.start("far", "--token-file", str(hosts.join_token()), "--label", "far")
    hosts.wait_registered(1)
    project.start("run", "plan.md")
    wait_until(lambda: project.rows("SELECT * FROM attempts") and project.marked())
    with open_store(project.url) as store:
        now = time.time()
        join, _ = create_join_token(store, name="h", uses=1, expires=None, now=now)
        _, other = join_host(store, join.id, "near", now=now)
    record_of(hosts).with_name("token").write_text(other)  # git pushes as another host
    go.touch()
    wait_until(lambda: project.states() == {"1.1": "blocked"})
    assert "Home refused the work" in project.weft("why", "1.1").stdout
    assert len(project.rows("SELECT * FROM attempts")) == 1


def test_a_crash_at_any_step_of_a_renewal_leaves_a_valid_token(hosts: WorkerHosts) -> None:
    hosts.serve()
    join = str(hosts.join_token())
    worker = hosts.start("far", "--token-file", join, "--exit-when-idle", "1s")
    assert worker.wait(timeout=PATIENCE) == 0
    record = record_of(hosts)
    files = HostFiles(hosts.url, {"HOME": str(hosts.home_of("far"))})
    age(record, confirmed=False)
    kept = renew(hosts.url, files)
    assert kept.confirmed
    # The new token was kept, and weft died before its file for git was written and confirmed.
    age(record, since=kept.since, confirmed=False)
    record.with_name("token").write_text("an earlier token")
    assert renew(hosts.url, files) == kept
    assert record.with_name("token").read_text() == kept.secret
    back = hosts.start("far", "--exit-when-idle", "1s")
    assert back.wait(timeout=PATIENCE) == 0
