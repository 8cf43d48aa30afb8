"""Worker hosts: a run on three hosts, and the start of an agent on a host that is not home."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench.figures import figure
from bench.postgres_cluster import running_cluster
from bench.three_hosts import ThreeHosts, connected_hosts
from weft.store import open_store
from weft.store.limit_table import set_limit

_TASKS, _SECONDS, _SLOTS = 24, 5, 2
_STARTS = 9
_PATIENCE = 300.0
_SLEEPING = f"cat > /dev/null; sleep {_SECONDS}; echo x > $WEFT_FILES"
_TELLING = "cat > /dev/null; date +%s.%N > $WEFT_FILES"


def _git(root: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *words], check=True, capture_output=True, text=True
    ).stdout


def _write_project(root: Path) -> None:
    """Write a repository whose agent `far` runs on hosts with a label alone."""
    agents = root / ".weft" / "agents"
    agents.mkdir(parents=True)
    for name, script, front in (
        ("sleeping", _SLEEPING, ""),
        ("near", _TELLING, ""),
        ("far", _TELLING, "needs_labels: far\n"),
    ):
        argv = json.dumps(["sh", "-c", script])
        (agents / f"{name}.md").write_text(f"---\nruns: {argv}\nsandbox: off\n{front}---\n")
    (root / "weft.toml").write_text('[gate]\nrun = ["true"]\n')
    (root / ".gitignore").write_text("plan.md\n")
    _git(root, "init", "--quiet", "--initial-branch", "main")
    for setting in ("user.name=bench", "user.email=bench@example.invalid"):
        _git(root, "config", *setting.split("=", 1))
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "--message", "set up")


class _Hosts(ThreeHosts):
    def run(self, agent: str, tasks: int) -> str:
        """Run a plan to its end; return the id of the run."""
        (self.root / "plan.md").write_text(
            "## P\n<!-- execution: parallel -->\n"
            + "".join(
                f"- [ ] Make {n}\n  <!-- files: {agent}{n}; agent: {agent} -->\n"
                for n in range(tasks)
            )
        )
        home = self.network.hosts["home"]
        process = self.weft(home, "run", "plan.md", "--no-preflight", "--no-write")
        assert process.wait(_PATIENCE) == 0, process.errors.read_text()
        return str(self._read("SELECT run FROM weft.tasks ORDER BY id DESC LIMIT 1"))

    def seconds_to_start(self, agent: str) -> float:
        """Run single tasks; return the median time from the grant to the agent's first act."""
        return statistics.median(self._start(agent) for _ in range(_STARTS))

    def _start(self, agent: str) -> float:
        run = self.run(agent, 1)
        granted = self._read("SELECT started FROM weft.attempts ORDER BY task DESC LIMIT 1")
        return float(_git(self.root, "show", f"weft/{run}:{agent}0")) - float(str(granted))

    def _read(self, question: str) -> object:
        with psycopg.connect(self.cluster.url) as connection:
            row = connection.execute(question).fetchone()
        assert row is not None
        return row[0]


@contextmanager
def _hosts() -> Iterator[_Hosts]:
    with (
        tempfile.TemporaryDirectory(prefix="weft-bench-") as place,
        connected_hosts(Path(place)) as network,
        running_cluster(host=network.hosts["store"]) as cluster,
    ):
        hosts = _Hosts(network, cluster)
        _write_project(hosts.root)
        with open_store(cluster.url) as store:
            for limit in ("run/agents", "stage/implement", "llm"):
                set_limit(store, limit, 100, now=0)
        hosts.serve("--slots", str(_SLOTS))
        yield hosts


@figure("hosts_makespan_ratio", "ratio", at_most=1.3)
def hosts_makespan_ratio() -> float:
    """24 tasks of 5 s on 3 hosts with 2 slots each ÷ the time they need at least."""
    with _hosts() as hosts:
        for name in ("alpha", "beta"):
            hosts.wait_ready(hosts.join(name, "--slots", str(_SLOTS)))
        begin = time.monotonic()
        hosts.run("sleeping", _TASKS)
        return (time.monotonic() - begin) / (_TASKS * _SECONDS / (3 * _SLOTS))


@figure("remote_start_ratio", "ratio", at_most=3)
def remote_start_ratio() -> float:
    """Grant → first act of the agent on a host with a warm mirror ÷ the same at home."""
    with _hosts() as hosts:
        near = hosts.seconds_to_start("near")
        hosts.wait_ready(hosts.join("alpha", "--slots", "1", "--label", "far"))
        hosts.run("far", 1)  # now its mirror is warm
        return hosts.seconds_to_start("far") / near
