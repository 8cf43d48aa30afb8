"""Hostile input is answered in bounded time and memory, with a problem that says why not more."""

from __future__ import annotations

import resource
import time

from cases import each_case
from weft import plan
from weft.plan.plan_records import Compiled, ParsedPlan
from weft.plan.problems import MOST_PROBLEMS

MEGABYTE = 1024 * 1024
# Far above the measured time, far below that of a quadratic algorithm.
SECONDS = 12
MEGABYTES = 500


def fill(unit: bytes, size: int) -> bytes:
    return (unit * (size // len(unit) + 1))[:size]


def tasks(count: int, unit: bytes) -> bytes:
    """A parallel phase of so many tasks, each with its number in its annotations."""
    items = b"".join(
        b"- [ ] a\n  <!-- " + unit.replace(b"N", b"%d" % n) + b" -->\n" for n in range(1, count)
    )
    return b"## P\n<!-- execution: parallel -->\n" + items


def annotated(annotation: bytes) -> bytes:
    return b"- [ ] a\n  <!-- " + annotation + b" -->\n"


CASES = {
    "ten megabytes of brackets": ("plan.md", b"[" * (10 * MEGABYTE)),
    "a million brackets": ("plan.md", b"[" * MEGABYTE),
    "a million brackets in a task": ("plan.md", b"- [ ] " + b"[" * MEGABYTE),
    "a million boxes": ("plan.md", fill(b"- [ ]\n", 6 * MEGABYTE)),
    "one line of four megabytes": ("plan.md", b"- [ ] " + b"a " * (2 * MEGABYTE - 10)),
    "nothing but blanks": ("plan.md", b"- [x] " + b" " * (4 * MEGABYTE - 10)),
    "deeply nested lists": ("plan.md", fill(b"- ", 4 * MEGABYTE)),
    "lists nested line by line": ("plan.md", b"".join(b" " * n + b"- x\n" for n in range(2000))),
    "many nested lists": ("plan.md", fill(b"- " * 20 + b"\n", 2 * MEGABYTE)),
    "more blocks than are read": ("plan.md", fill(b"* * * * *a\n", MEGABYTE)),
    "more lines than are read": ("plan.md", b"\n" * 300_000),
    "lone surrogates": ("plan.md", fill(b"- [ ] \xed\xa0\x80\n", 50_000)),
    "zero bytes": ("plan.md", fill(b"\x00", 4 * MEGABYTE)),
    "open comments": ("plan.md", fill(b"- <!--\n", 100_000)),
    "many comments": ("plan.md", fill(b"<!-- dependes: b -->", 500_000)),
    "many files": ("plan.md", annotated(b"files: " + b"a," * 2_000_000)),
    "a deep path": ("plan.md", annotated(b"files: " + b"a/" * MEGABYTE)),
    "many quotes": ("plan.md", annotated(b"priority: " + b'"' * MEGABYTE)),
    "unequal backticks": ("plan.md", b"- [ ] " + b" ".join(b"`" * n for n in range(1400))),
    "wide patterns": ("plan.md", tasks(1500, b"files: **/*aN*b, *N*/q/**")),
    "one long cycle": ("plan.md", annotated(b"depends: task2999") + b"- [ ] a\n" * 2998),
    "many cycles": ("plan.md", tasks(1000, b"files: none; depends: taskN")),
    "json, nested": ("prd.json", b'{"stories":' + b"[" * MEGABYTE),
    "json, wide": ("prd.json", b'{"stories":[' + b"1," * 400_000 + b"1]}"),
    "json, a long key": ("prd.json", b'{"' + b"k" * MEGABYTE + b'":[' + b"1," * 90_000 + b"1]}"),
    "json, a long number": ("prd.json", b'{"stories":' + b"1" * MEGABYTE + b"}"),
    "beads, nested": ("x.jsonl", fill(b'{"a":' * 1000 + b"\n", MEGABYTE)),
    "beads, a ladder of parents": (
        "x.jsonl",
        b"".join(
            b'{"id":"b%d","title":"t","dependencies":'
            b'[{"depends_on_id":"b%d","type":"parent-child"}]}\n' % (n, n - 1)
            for n in range(1, 1500)
        ),
    ),
}


REFUSED = {
    "ten megabytes of brackets",
    "a million boxes",
    "more blocks than are read",
    "more lines than are read",
}


def peak_memory() -> int:
    """In megabytes, as Linux counts it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def checked(name: str, data: bytes) -> tuple[ParsedPlan, Compiled]:
    reading = plan.read(name, data)
    compiled = plan.compile(reading.plan)
    plan.as_json(reading, compiled)
    return reading, compiled


@each_case("case", CASES)
def test_hostile_input_is_answered_in_bounded_time_and_memory(case: str) -> None:
    name, data = CASES[case]
    started, used = time.process_time(), peak_memory()
    reading, compiled = checked(name, data)
    assert time.process_time() - started < SECONDS
    assert peak_memory() - used < MEGABYTES
    reported = (*reading.problems, *compiled.problems)
    if case in REFUSED:
        assert reading.plan.tasks == ()
        assert [problem.code for problem in reported] == ["too-large"]
    assert reported
    assert len(reported) <= 4 * MOST_PROBLEMS + 2


def test_compiling_takes_time_in_proportion_to_tasks_and_paths() -> None:
    seconds = {}
    for count in (500, 5000):
        reading = plan.read("plan.md", large_plan(count))
        assert len(reading.plan.tasks) == count
        best = 9.0
        for _ in range(3):
            started = time.process_time()
            plan.compile(reading.plan)
            best = min(best, time.process_time() - started)
        seconds[count] = best
    # The bench holds the real bounds; this only catches a quadratic algorithm.
    assert seconds[5000] < 2
    assert seconds[5000] < 30 * seconds[500]


def large_plan(count: int) -> bytes:
    """Parallel phases, some of them free, with five files for each task, some of them shared."""
    lines = []
    for at in range(count):
        if at % 250 == 0:
            free = "<!-- depends: -->\n" if at % 1000 == 750 else ""
            lines.append(f"## Phase {at // 250 + 1}: x\n<!-- execution: parallel -->\n{free}\n")
        numbers = [(at * 7 + each * 13) % (4 * count) for each in range(5)]
        files = ", ".join(f"src/p{number % 97}/m{number}.ts" for number in numbers)
        lines.append(f"- [ ] Task {at % 250 + 1}: Do it\n  <!-- files: {files} -->\n")
    return "".join(lines).encode()
