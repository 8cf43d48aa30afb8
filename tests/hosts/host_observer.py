"""Three hosts under observation: journals of agents, git of home and rows of the database."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bench.host_network import HostNetwork, HostProcess, find_obstacle
from bench.postgres_cluster import Cluster
from bench.three_hosts import ThreeHosts, connected_hosts
from end_to_end.run_project import RunProject
from postgres_cluster import running_cluster
from repositories import git
from wait_until import wait_until
from weft.store import open_store
from weft.store.limit_table import set_limit

T1, DRIFT, GRACE = 10.0, 0.2, 0.4
T2 = T1 + DRIFT + GRACE

WAITING = """cat > /dev/null
note() { read now rest < /proc/uptime; echo "$1 ${WEFT_ATTEMPT_MARK#*.} $now" >> /tmp/journal; }
note start
while [ ! -e /tmp/go ] && [ ! -e /tmp/go-$WEFT_TASK ]; do note alive; sleep 0.1; done
echo $WEFT_TASK > $WEFT_FILES
note end
"""
"""An agent that keeps a journal on its host, and waits there for a file."""

HEAVY = "head -c 1500000 /dev/urandom"
_CANDIDATES = "refs/weft/candidates"
_FAR = ("alpha", "beta")
_STUCK = "SELECT name, state, reason FROM tasks WHERE run = ? AND state IN ('blocked', 'failed')"


class Note(NamedTuple):
    """A line in the journal of an agent."""

    host: str
    word: str  # start, alive or end
    task: int
    attempt: int
    at: float  # seconds since the machine started: its hosts share that clock


class Submitted(NamedTuple):
    """A run that was submitted from a terminal which is gone."""

    id: str
    plan: str


class ObservedHosts(ThreeHosts):
    """Three hosts, and a look at them from outside."""

    def __init__(self, network: HostNetwork, cluster: Cluster) -> None:
        super().__init__(network, cluster)
        self.direct = self.store
        self.project = RunProject(network.hosts["home"].home, cluster.url)
        self.project.settings(
            lease=2.0, heartbeat=0.2, gone_after=T1, drift=DRIFT, kill_grace=GRACE
        )
        self.project.write(**{".gitignore": "plan*.md\n"})
        self.agent("far", WAITING)
        self.agent("few", WAITING, "max_concurrency: 3\n")
        self.agent("heavy", WAITING.replace("echo $WEFT_TASK", HEAVY))
        self.project.commit()
        with open_store(cluster.url) as store:
            for limit in ("runs", "run/agents", "stage/implement"):
                set_limit(store, limit, 100, now=0)
        self._runs = 0

    def agent(self, name: str, script: str, settings: str = "") -> None:
        """Write an agent that runs on the hosts away from home."""
        argv = json.dumps(["sh", "-c", script])
        front = f"runs: {argv}\nsandbox: off\nneeds_labels: far\n{settings}"
        self.project.write(**{f".weft/agents/{name}.md": f"---\n{front}---\n"})

    def begin(self) -> None:
        """Start the server of home and the workers of the other hosts."""
        self.serve("--slots", "1")
        for name in _FAR:
            self.join(name)
        for name in _FAR:
            self.wait_ready(self.workers[name])

    def join(self, name: str, *options: str, **environment: str) -> HostProcess:
        return super().join(name, "--slots", "2", "--label", "far", *options, **environment)

    def submit(self, number: int, agent: str = "far") -> Submitted:
        """Submit a run of tasks that may all run at the same time."""
        self._runs += 1
        plan = self.root / f"plan{self._runs}.md"
        tasks = "".join(
            f"- [ ] Make {n}\n  <!-- files: src/{plan.stem}-1.{n}; agent: {agent} -->\n"
            for n in range(1, number + 1)
        )
        plan.write_text(f"## P\n<!-- execution: parallel -->\n{tasks}")
        home = self.network.hosts["home"]
        submitter = self.weft(home, "run", plan.name, "--no-preflight", "--no-write")
        question = "SELECT DISTINCT run FROM tasks WHERE run LIKE ?"
        wait_until(
            lambda: submitter.ended() or self.rows(question, f"{plan.stem}-%"),
            f"the run of {plan.name}",
        )
        submitter.kill()  # the server does the work
        [row] = self.rows(question, f"{plan.stem}-%")
        return Submitted(row["run"], plan.stem)

    def rows(self, question: str, *parameters: object) -> list[dict[str, Any]]:
        return self.project.rows(question, *parameters)

    def tasks(self, run: Submitted) -> dict[int, str]:
        """The names of the tasks of a run by their ids."""
        rows = self.rows("SELECT id, name FROM tasks WHERE run = ?", run.id)
        return {row["id"]: row["name"] for row in rows}

    def attempts(self, run: Submitted) -> list[dict[str, Any]]:
        return self.rows(
            "SELECT a.*, l.host, l.ended AS lease_end FROM attempts a JOIN tasks t ON t.id = a.task"
            " JOIN leases l ON l.fence = a.fence WHERE t.run = ? ORDER BY a.task, a.number",
            run.id,
        )

    def journal(self, run: Submitted | None = None) -> list[Note]:
        """The notes of the agents of all hosts, or of a run's agents, in their order."""
        notes = []
        for name in ("home", *_FAR):
            file = self.network.hosts[name].tmp / "journal"
            for line in file.read_text().splitlines() if file.exists() else ():
                word, mark, at = line.split()
                task, attempt = mark.split(".")
                notes.append(Note(name, word, int(task), int(attempt), float(at)))
        kept = None if run is None else self.tasks(run)
        return sorted(
            (note for note in notes if kept is None or note.task in kept), key=lambda n: n.at
        )

    def starts(self, run: Submitted) -> list[tuple[int, int]]:
        """The task and the number of each attempt whose agent started, by the journals."""
        return sorted((n.task, n.attempt) for n in self.journal(run) if n.word == "start")

    def tasks_on(self, host: str, run: Submitted) -> list[int]:
        """The tasks whose first agents a host runs."""
        notes = self.journal(run)
        return [n.task for n in notes if (n.host, n.word, n.attempt) == (host, "start", 1)]

    def assert_first_attempts(self, run: Submitted) -> None:
        """Assert that each task was started once, and that this attempt brought its work."""
        first = [(task, 1) for task in sorted(self.tasks(run))]
        assert self.starts(run) == first
        ends = [(a["task"], a["number"], a["outcome"]) for a in self.attempts(run)]
        assert ends == [(task, 1, "success") for task, _ in first]

    def wait_notes(self, word: str, number: int, run: Submitted | None = None) -> list[Note]:
        """Wait for a number of notes with a word; return them."""

        def notes() -> list[Note]:
            return [note for note in self.journal(run) if note.word == word]

        def reached() -> bool:
            stuck = [] if run is None else self.rows(_STUCK, run.id)
            assert not stuck, stuck
            return len(notes()) >= number

        wait_until(reached, f"{number} notes of {word}")
        return notes()

    def candidates(self) -> set[tuple[int, int, int]]:
        """What hosts have pushed: task, number of the attempt, and fence."""
        names = git(self.root, "for-each-ref", "--format=%(refname:lstrip=3)", _CANDIDATES)
        parts = (name.split(".") for name in names.split())
        return {(int(task), int(number), int(fence)) for task, number, fence in parts}

    def pushed(self, run: Submitted) -> set[tuple[int, int]]:
        """The attempts of a run whose work a host has pushed: task and number."""
        known = self.tasks(run)
        return {(task, number) for task, number, _ in self.candidates() if task in known}

    def trunk(self, run: Submitted) -> str:
        return git(self.root, "rev-parse", f"weft/{run.id}").strip()

    def wait_logged(self, host: str, text: str) -> None:
        """Wait until the worker of a host has logged a text."""
        wait_until(lambda: text in self.log_of(host), f"{text!r} in the log of {host}")

    def log_of(self, host: str) -> str:
        return self.workers[host].errors.read_text()

    def restart_workers(self, **environments: dict[str, str]) -> None:
        """Kill the worker of each named host, and start another with these variables."""
        for name, environment in environments.items():
            self.workers[name].kill()
            self.join(name, **environment)
        for name in environments:
            self.wait_ready(self.workers[name])

    def restart_home(self, store: str | None = None) -> None:
        """Kill the server of home, and start another, over its usual store or another way to it."""
        assert self.server is not None
        self.server.kill()
        self.store = store or self.direct
        self.serve("--slots", "1")

    def false_time(self, offset: str) -> dict[str, str]:
        """The variables that give a process another wall clock; its other clocks stay."""
        library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
        if library is None:
            pytest.skip("faketime is not installed (Debian: faketime)")
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME": offset,
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "PYTHONPATH": str(Path(__file__).with_name("false_time")),
        }

    def describe(self) -> str:
        """Everything by which a failure can be explained: rows, events, journals and logs."""
        tables = {
            "open tasks": "SELECT id, run, name, state, reason FROM tasks WHERE state <> 'done'",
            "open leases": "SELECT * FROM leases WHERE state <> 'released'",
            "workers": "SELECT * FROM workers WHERE departed IS NULL",
            "claims": "SELECT * FROM claims",
            "events": "SELECT * FROM (SELECT * FROM events ORDER BY id DESC LIMIT 60) e ORDER BY 1",
        }
        parts = [
            f"{title}:\n" + "\n".join(map(str, self.rows(question)))
            for title, question in tables.items()
        ]
        parts += map(str, [note for note in self.journal() if note.word != "alive"][-20:])
        processes = {"home": self.server, **self.workers}
        parts += [
            f"log of {name}:\n{process.errors.read_text()[-6000:]}"
            for name, process in processes.items()
            if process is not None
        ]
        return "\n".join(parts)

    def let_go(self, *hosts: str) -> None:
        """Let the agents of some hosts end their work; by default of all but home."""
        for name in hosts or _FAR:
            (self.network.hosts[name].tmp / "go").touch()

    def is_quiet(self) -> bool:
        """Tell whether no task is open, no packet dropped, and all workers are there."""
        ended = "('done', 'failed', 'cancelled', 'skipped')"
        processes = [self.server, *self.workers.values()]
        return (
            self.network.is_whole()
            and not self.rows(f"SELECT id FROM tasks WHERE state NOT IN {ended}")
            and all(process is not None and not process.ended() for process in processes)
        )

    def hold_back(self) -> None:
        for name in _FAR:
            for file in self.network.hosts[name].tmp.glob("go*"):
                file.unlink()

    def wait_states(self, run: Submitted, states: set[str]) -> None:
        """Wait until the tasks of a run have these states; a task that needs a person fails."""

        def reached() -> bool:
            stuck = self.rows(_STUCK, run.id)
            assert not stuck, stuck
            return self.states(run) == states

        wait_until(reached, f"{run.id}: {states}")

    def states(self, run: Submitted) -> set[str]:
        return {row["state"] for row in self.rows("SELECT state FROM tasks WHERE run = ?", run.id)}

    def wait_landed(self, run: Submitted) -> None:
        """Wait for the end of a run; assert that each of its tasks landed, and landed once."""
        self.wait_states(run, {"done"})
        names = self.tasks(run).values()
        trailer = "--format=%(trailers:key=Weft-Task,valueonly,separator=%x2C)"
        landed = git(self.root, "log", trailer, f"main..weft/{run.id}").split()
        assert Counter(landed) == Counter(names)
        proof = self.project.weft("verify", run.id)
        assert proof.returncode == 0, (proof.stdout, proof.stderr)
        assert git(self.root, "ls-tree", "--name-only", f"weft/{run.id}", "src/").split() == sorted(
            ["src/README", *(f"src/{run.plan}-{name}" for name in names)]
        )

    def assert_never_doubled(self, run: Submitted) -> None:
        """Assert that no two agents of a task were alive at the same time, by their journals."""
        spans: dict[int, dict[int, list[float]]] = {}
        for note in self.journal(run):
            spans.setdefault(note.task, {}).setdefault(note.attempt, []).append(note.at)
        for task, attempts in spans.items():
            ordered = sorted((min(times), max(times)) for times in attempts.values())
            for (_, ended), (started, _) in itertools.pairwise(ordered):
                assert ended <= started, (task, attempts)


@contextmanager
def observed_hosts(place: Path) -> Iterator[ObservedHosts]:
    """Three hosts at work; skip the test where this machine allows none."""
    if obstacle := find_obstacle():
        pytest.skip(f"hosts in namespaces need root: {obstacle}")
    with (
        connected_hosts(place) as network,
        running_cluster(host=network.hosts["store"]) as cluster,
    ):
        hosts = ObservedHosts(network, cluster)
        try:
            hosts.begin()
            yield hosts
        finally:
            hosts.project.close()
