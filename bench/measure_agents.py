"""What supervision costs by itself: wrappers that wait, and reading what agents print."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import psutil

from bench.figures import figure
from weft.process import attempt_files
from weft.process.agent_process import Running, Spawn, start
from weft.process.launcher import Launcher
from weft.process.output_tail import Tail
from weft.process.process_identity import boottime

_AGENTS = 200
_LINE = (
    b'{"type":"assistant","message":{"content":[{"type":"text","text":"' + b"x" * 200 + b'"}]}}\n'
)


@contextmanager
def agents_directory() -> Iterator[Path]:
    # Memory where there is such a file system: disks of test machines are slow in odd ways.
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="weft-bench-", dir=shared) as directory:
        yield Path(directory)


def spawn(directory: Path, name: str, *argv: str) -> Spawn:
    return Spawn(
        argv=argv,
        environment={"PATH": os.environ["PATH"]},
        cwd=directory,
        directory=directory / name,
        marker=f"bench-{os.getpid()}-{name}",
        stdin=b"prompt" * 1000,
        grace=2.0,
    )


@contextmanager
def sleeping_agents() -> Iterator[list[int]]:
    """Many agents that sleep; gives the pids of weft's own processes beside them."""
    with agents_directory() as directory, Launcher() as launcher, ExitStack() as stack:
        own = [os.getpid()]
        for number in range(_AGENTS):
            one = spawn(directory, str(number), "sleep", "1000")
            running = start(one, launcher, renewed=boottime())
            stack.callback(_end, running)
            record = attempt_files.find_record(str(one.directory / attempt_files.WRAPPER))
            assert record is not None
            own.append(record["pid"])
        children = psutil.Process().children()
        yield own + [child.pid for child in children]


def _end(running: Running) -> None:
    running.kill()
    anyio.run(running.wait_ended)


@figure("agents_idle_cpu_percent", "%")
def agents_idle_cpu_percent() -> float:
    """One core's share of all wrappers and a reader that looks at 400 files every 100 ms."""
    seconds = 8.0
    with sleeping_agents() as own:
        wrappers = [psutil.Process(pid) for pid in own]
        places = [Path(f"/proc/{pid}/stat") for pid in own[1:] for _ in range(2)]
        tails = [Tail(place) for place in places]  # always of size 0, as an idle output is
        before = sum(sum(process.cpu_times()[:2]) for process in wrappers)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for tail in tails:
                tail.lines()
            time.sleep(0.1)
        after = sum(sum(process.cpu_times()[:2]) for process in wrappers)
    return 100 * (after - before) / seconds


@figure("stream_mb_s", "MB/s")
def stream_mb_s() -> float:
    """Lines of the size agents print, read to the end by one core."""
    with agents_directory() as directory:
        path = directory / "stdout"
        path.write_bytes(_LINE * 200_000)
        began = time.process_time()
        count = sum(len(lines) for lines in Tail(path).rest())
        took = time.process_time() - began
        assert count == 200_000
        return path.stat().st_size / took / 1e6
