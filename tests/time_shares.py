"""The time of a test session by directory, held against the shares of `budgets.toml`.

A share is a part of the whole session: it does not depend on the machine's speed.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

BUDGETS = Path(__file__).parent.parent / "budgets.toml"
REST = "the rest"
"""The directories and files that have no share of their own, each for itself."""


def longest_first(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: -item[1])


def exceeded(seconds: Mapping[str, float], shares: Mapping[str, int]) -> list[str]:
    """List the directories that took more than their percentage of all seconds."""
    total = sum(seconds.values())
    return [
        f"tests/{name} took {100 * spent / total:.1f} % of all test time; "
        f"budgets.toml allows {shares.get(name, shares[REST])} %."
        for name, spent in longest_first(seconds)
        if spent > total * shares.get(name, shares[REST]) / 100
    ]


class TimeShares:
    """A pytest plugin that sums and prints; if strict, a directory over its share is a failure."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._seconds: dict[str, float] = defaultdict(float)
        self._exceeded: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[Path(report.nodeid.partition("::")[0]).parts[1]] += report.duration

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._strict and self._seconds and not hasattr(session.config, "workerinput"):
            shares = tomllib.loads(BUDGETS.read_text())["test_time_percent"]
            self._exceeded = exceeded(self._seconds, shares)
            if self._exceeded and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._strict:
            terminalreporter.section("seconds of tests by directory")
            for name, spent in longest_first(self._seconds):
                terminalreporter.write_line(f"{spent:8.1f} {name}")
            for sentence in self._exceeded:
                terminalreporter.write_line(sentence, red=True)
