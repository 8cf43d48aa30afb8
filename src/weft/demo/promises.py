"""The promises of the demo's plan, looked up in `weft report --json`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def promises(report: dict[str, Any]) -> Iterator[tuple[bool, str]]:
    """Yield True for a promise that was kept, with the promise."""
    tasks = {task["name"]: task for task in report["tasks"]}
    first = {attempt["task"]: attempt for attempt in report["attempts"] if attempt["number"] == 1}
    rejections = report["rejections"]
    sent_back = {
        (task, rejection["kind"]) for rejection in rejections for task in rejection["tasks"]
    }
    agents = next(limit for limit in report["capacity"] if limit["resource"].endswith("/agents"))

    def repaired(task: str) -> bool:
        """Tell whether a later attempt than the first landed."""
        tries = [attempt for attempt in report["attempts"] if attempt["task"] == task]
        return len(tries) > 1 and tries[-1]["fate"] == "landed"

    def failed(task: str, outcome: str) -> bool:
        return bool(first[task]["outcome"] == outcome and repaired(task))

    yield (
        len(tasks) == 11 and all(task["commit"] for task in tasks.values()),
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
        "a failing check: 1.3 was sent back with the output, and repaired",
    )
    yield failed("2.2", "crash"), "a crash: the agent of 2.2 died, and another took over"


def goal_promises(report: dict[str, Any], planning: dict[str, Any]) -> Iterator[tuple[bool, str]]:
    """Yield the promises of the scene in which a planner writes the plan."""
    tasks = {task["name"]: task for task in report["tasks"]}
    yield (
        planning["attempts"] == 2,
        "the planner needed two rounds: weft sent the problems of its first plan back",
    )
    yield (
        sorted(tasks) == ["1.1", "1.2", "2.1"] and all(task["commit"] for task in tasks.values()),
        "all 3 tasks of its plan have landed on one branch",
    )
