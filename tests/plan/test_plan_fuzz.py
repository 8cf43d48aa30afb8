"""No bytes make reading raise, nor any use of the result."""

from __future__ import annotations

import json
import random
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from cases import each_case
from chaos import CHAOS
from weft import plan
from weft.model import State
from weft.plan.annotator import annotate
from weft.plan.plan_json import build_parallel_state
from weft.plan.plan_records import ParsedPlan
from weft.plan.writeback import Status, write_back

CORPUS = sorted(
    path
    for path in (Path(__file__).parent.parent / "plans").iterdir()
    if path.suffix in (".md", ".json", ".jsonl") and not path.name.endswith(".golden.json")
)
NAMES = ["plan.md", "prd.json", "issues.jsonl", "anything"]
BITS = [
    b"- [ ] ", b"* [x] ", b"1. [~] ", b"Task 1: ", b"## Phase 1: ", b"## ", b"### ", b"\n", b"\r\n",
    b"\r", b"\t", b"  ", b"<!--", b"-->", b"files: ", b"depends: ", b"task1", b"phase2", b"1.2",
    b";", b",", b'"', b"`", b"```\n", b"[", b"]", b"(", b"**", b"../", b"/", b"\x00",
    b"\xed\xa0\x80", b"\xff", b"\xef\xbb\xbf", b"9f8e7d6", b"[BLOCKED: ", b"(SKIPPED)", b"none",
    b"[checkpoint: ",
    b"{", b"}", b'"stories":', b'"id":', b'"title":"t"', b'"subtasks":', b'"files":', b"null",
    b'"depends_on":["S"]', b'"\\ud800"', b'"dependencies":', b'"depends_on_id":"x"', b'"status":',
    b"execution: parallel", b"agent: human", b"parallel-group: g", b"id: x", b"manual verification",
]  # fmt: skip


def everything(name: str, data: bytes) -> ParsedPlan:
    """Read, and use the result in every way."""
    reading = plan.read(name, data)
    compiled = plan.compile(reading.plan, capacity=2)
    # Printable: no half characters, and valid JSON.
    json.dumps(plan.as_json(reading, compiled), allow_nan=False, ensure_ascii=False).encode()
    for problem in reading.problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.message.endswith((".", "?"))
    build_parallel_state(reading.plan)
    annotated = annotate(name, data, ["src/a.py"])
    done = {task.id: Status(state=State.DONE, commit="9f8e7d6") for task in reading.plan.tasks}
    write_back(data, reading.plan, done, trunk="1a2b3c4")
    write_back(annotated.data, reading.plan, done)
    assert plan.read(name, data) == reading
    return reading


@given(name=st.sampled_from(NAMES), data=st.binary(max_size=300))
def test_arbitrary_bytes_never_raise(name: str, data: bytes) -> None:
    everything(name, data)


@given(name=st.sampled_from(NAMES), bits=st.lists(st.sampled_from(BITS), max_size=40))
@example(name="plan.md", bits=[b"- [ ] ", b"<!--", b"files: ", b"-->"])
def test_the_pieces_of_plans_in_any_order_never_raise(name: str, bits: list[bytes]) -> None:
    everything(name, b"".join(bits))


def mutated(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 8)):
        at = rng.randint(0, len(data))
        to = min(len(data), at + rng.randint(0, 30))
        match rng.randrange(5):
            case 0:
                data = data[:at] + data[to:]
            case 1:
                data = data[:at] + rng.choice(BITS) + data[at:]
            case 2:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 3:
                data = data[:to] + data[at:to] + data[to:]
            case _:
                lines = data.split(b"\n")
                rng.shuffle(lines)
                data = b"\n".join(lines)
    return data


@each_case("path", CORPUS)
def test_mutated_plans_never_raise(path: Path) -> None:
    rng = random.Random(path.name)
    data = path.read_bytes()
    for _ in range(8 if CHAOS else 3):
        everything(path.name, mutated(data, rng))
