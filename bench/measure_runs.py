"""Whole runs of `weft run` with agents that sleep: what everything around the agents costs."""

from __future__ import annotations

import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.figures import figure

_SCRIPTED = "---\nruns: scripted\n---\n{{ task.text }}\n"
_STAMPING = """---
runs: [sh, -c, 'date +"begin %s.%N" >> $STAMPS; sleep {seconds}; echo x > $WEFT_FILES;
  date +"end %s.%N" >> $STAMPS']
env: [STAMPS]
sandbox: off
---
"""


class Project:
    """A repository, and weft called in it from a shell."""

    def __init__(self, place: Path, agent: str = _SCRIPTED) -> None:
        self.root = place / "project"
        self.stamps = place / "stamps"
        (self.root / ".weft" / "agents").mkdir(parents=True)
        (self.root / ".weft" / "agents" / "implement.md").write_text(agent)
        for n in range(200):
            (self.root / f"f{n}").write_text(f"{n}\n")
        for words in (
            ("init", "-q", "-b", "main"),
            ("add", "-A"),
            ("-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "first"),
        ):
            subprocess.run(["git", *words], cwd=self.root, check=True)
        self.stamps.touch()

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("WEFT_", "PYTHONDONT"))
        }
        return subprocess.Popen(
            [sys.executable, "-m", "weft", "run", *arguments],
            cwd=self.root,
            env={**kept, "STAMPS": str(self.stamps)},
            stdout=subprocess.DEVNULL,
        )

    def run(self, *arguments: str) -> float:
        """How long a run takes from the call to its end."""
        began = time.monotonic()
        process = self.start(*arguments)
        assert process.wait() == 0
        return time.monotonic() - began

    def stamped(self) -> list[tuple[str, float]]:
        lines = [line.split() for line in self.stamps.read_text().splitlines()]
        return [(line[0], float(line[1])) for line in lines if len(line) == 2]


@contextmanager
def project(agent: str = _SCRIPTED) -> Iterator[Project]:
    # Memory where there is such a file system: disks of test machines are slow in odd ways.
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="weft-bench-", dir=shared) as directory:
        yield Project(Path(directory), agent)


@dataclass(frozen=True, kw_only=True)
class Job:
    seconds: float
    files: tuple[str, ...]
    needs: tuple[int, ...] = ()  # of those before it


def plan(jobs: Sequence[Job]) -> str:
    lines = ["## Phase 1: All", "<!-- execution: parallel -->", ""]
    for n, job in enumerate(jobs):
        needs = ", ".join(f"t{one}" for one in job.needs)
        lines.append(f"- [ ] Job {n}")
        lines.append(f"  <!-- id: t{n}; files: {', '.join(job.files)} -->")
        lines += [f"  <!-- depends: {needs} -->"] if needs else []
        lines += [f"  - script: append {one} x" for one in job.files]
        lines.append(f"  - script: sleep {job.seconds}")
    return "\n".join(lines) + "\n"


def lower_bound(jobs: Sequence[Job], slots: int) -> float:
    """No schedule is shorter: the work over the slots, the longest chain, the busiest file."""
    ends: list[float] = []
    for job in jobs:
        ends.append(job.seconds + max((ends[one] for one in job.needs), default=0.0))
    files = {file for job in jobs for file in job.files}
    busiest = max(sum(job.seconds for job in jobs if file in job.files) for file in files)
    return max(sum(job.seconds for job in jobs) / slots, *ends, busiest)


@figure("run_12x2_ratio", "ratio", at_most=1.15)
def run_12x2_ratio() -> float:
    """12 independent tasks of 2 s in 3 slots, with workspace, commit and landing each, ÷ 8 s.

    By a shell that sleeps: the start of an interpreter would make them longer than 2 s.
    """
    with project(_STAMPING.replace("{seconds}", "2")) as one:
        one.write("plan.md", plan([Job(seconds=2, files=(f"n{n}",)) for n in range(12)]))
        return one.run("plan.md", "--slots", "3") / 8


@figure("run_makespan_ratio", "ratio", at_most=1.15)
def run_makespan_ratio() -> float:
    """40 tasks of 3 to 9 s with needs and shared files in 8 slots, ÷ the lower bound.

    How long each takes is not known to weft. The plan is one of which that does not matter much:
    the same order without any cost comes to 1.03.
    """
    chance = random.Random(14)
    jobs = []
    for n in range(40):
        shared = (f"f{chance.randrange(6)}",) if chance.random() < 0.3 else ()
        behind = chance.sample(range(n), k=min(n, chance.choice((0, 0, 1, 2))))
        jobs.append(
            Job(
                seconds=round(chance.uniform(3, 9), 1),
                files=(f"n{n}", *shared),
                needs=tuple(sorted(behind)),
            )
        )
    with project() as one:
        one.write("plan.md", plan(jobs))
        return one.run("plan.md", "--slots", "8") / lower_bound(jobs, 8)


@figure("refill_ms", "ms", at_most=100)
def refill_ms() -> float:
    """From one agent's end to the next one executing, in the only slot; the median of 14."""
    with project(_STAMPING.replace("{seconds}", "0.4")) as one:
        one.write("plan.md", plan([Job(seconds=0, files=(f"n{n}",)) for n in range(15)]))
        one.run("plan.md", "--slots", "1")
        stamps = one.stamped()
    gaps = [
        later - earlier
        for (what, earlier), (then, later) in itertools.pairwise(stamps)
        if (what, then) == ("end", "begin")
    ]
    return 1000 * statistics.median(gaps)


def _stories(count: int) -> str:
    stories = [
        {
            "id": f"S-{n}",
            "title": f"Story {n}",
            "description": f"script: append f{n} x\nscript: sleep 3",
            "files": [f"f{n}"],
        }
        for n in range(count)
    ]
    return json.dumps({"title": "Stories", "stories": stories})


@figure("four_stories_ratio", "ratio", at_most=1.3)
def four_stories_ratio() -> float:
    """Four independent stories of 3 s with `--slots 4` ÷ one."""
    with project() as one, project() as four:
        one.write("prd.json", _stories(1))
        four.write("prd.json", _stories(4))
        return four.run("prd.json", "--slots", "4") / one.run("prd.json", "--slots", "4")


@figure("crash_recovery_s", "s", at_most=2)
def crash_recovery_s() -> float:
    """From kill -9 of the only process, started again at once, to the next agent executing.

    The agent that ran when it was killed ends in the meantime, and is settled first.
    """
    found = []
    with project(_STAMPING.replace("{seconds}", "0.3")) as one:
        one.write("plan.md", plan([Job(seconds=0, files=(f"n{n}",)) for n in range(12)]))
        process = one.start("plan.md", "--slots", "1")
        for _ in range(3):
            seen = _begun(one)
            while _begun(one) == seen:
                time.sleep(0.005)
            process.kill()
            killed = time.time()
            process.wait()
            process = one.start("--resume")
            while _begun(one) == seen + 1:
                time.sleep(0.005)
            found.append(one.stamped()[-1][1] - killed)
        assert process.wait() == 0
    return statistics.median(found)


def _begun(one: Project) -> int:
    return sum(what == "begin" for what, _ in one.stamped())


@figure("run_rss_mb", "MB")
def run_rss_mb() -> float:
    """The most memory `weft run` was seen to use, with 8 agents at a time; its own process."""
    with project() as one:
        one.write("plan.md", plan([Job(seconds=0.5, files=(f"n{n}",)) for n in range(24)]))
        process = one.start("plan.md", "--slots", "8")
        watched = psutil.Process(process.pid)
        most = 0
        while process.poll() is None:
            most = max(most, watched.memory_info().rss)
            time.sleep(0.05)
        assert process.returncode == 0
    return most / 1e6
