"""Whether many processes on one SQLite file get as much done as one."""

from __future__ import annotations

import statistics
import subprocess
import sys

from bench.figures import figure
from bench.stores import fill, open_roomy, sqlite_url, tasks

_PROCESSES = 8
_SECONDS = 2.0


def throughput(url: str, processes: int) -> float:
    """Admissions per second of all processes together."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.contender", url, f"w{number}", str(_SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    for one in started:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in started:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    return sum(float(one.communicate(timeout=60)[0]) for one in started) / _SECONDS


@figure("contended_sqlite", "ratio", at_least=0.6)
def contended_sqlite() -> float:
    with sqlite_url() as url, open_roomy(url, workers=_PROCESSES) as store:
        fill(store, tasks(1000))
        return statistics.median(throughput(url, _PROCESSES) / throughput(url, 1) for _ in range(3))
