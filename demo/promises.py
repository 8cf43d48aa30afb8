"""What the plan of the demo promises, looked for in `weft report --json`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def promises(told: dict[str, Any]) -> Iterator[tuple[bool, str]]:
    """Each promise, and whether it was kept."""
    tasks = {one["name"]: one for one in told["tasks"]}
    first = {one["task"]: one for one in told["attempts"] if one["number"] == 1}
    sent_back = {(task, one["kind"]) for one in told["rejections"] for task in one["tasks"]}
    agents = next(one for one in told["capacity"] if one["resource"].endswith("/agents"))

    def repaired(task: str) -> bool:
        """Whether it landed, by an attempt that was not its first."""
        tries = [one for one in told["attempts"] if one["task"] == task]
        return len(tries) > 1 and tries[-1]["fate"] == "landed"

    def failed(task: str, outcome: str) -> bool:
        return bool(first[task]["outcome"] == outcome and repaired(task))

    yield (
        len(tasks) == 11 and all(one["commit"] for one in tasks.values()),
        "all 11 tasks have landed on one branch",
    )
    yield (
        1 < agents["peak"] <= agents["limits"][0][1],
        f"agents ran in parallel, {agents['peak']} at a time and never more than "
        f"{agents['limits'][0][1]}",
    )
    yield (
        tasks["2.2"]["start"] >= tasks["2.1"]["end"],
        "a dependency: 2.2 started when 2.1 had landed",
    )
    yield failed("1.2", "rate_limit"), "a rate limit: 1.2 was parked, and went on where it was"
    yield failed("1.6", "scope"), "an undeclared overlap: 1.6 waited for the owner of its file"
    yield (
        ("1.5", "conflict") in sent_back and repaired("1.5"),
        "a merge conflict: 1.5 was made again on what had landed",
    )
    yield (
        ("1.3", "red") in sent_back and repaired("1.3"),
        "a failing check: 1.3 was sent back with the output, and mended",
    )
    yield failed("2.2", "crash"), "a crash: the agent of 2.2 died, and another took over"
