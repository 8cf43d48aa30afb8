"""The names of the tests that failed, read from the output of pytest or unittest.

The names count only if they are complete: as many as the runner's last line counts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from msgspec import Struct

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_PYTEST_END: Final = re.compile(
    r"^(?:=+ )?((?:\d+ [a-z]+(?:, )?)+) in [0-9.]+s(?: \([0-9:]+\))?(?: =+)?$", re.MULTILINE
)
_PYTEST_TEST: Final = re.compile(
    r"^(FAILED|ERROR) (\S+?::[^\s\[]+(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE
)
_PYTEST_VERBOSE: Final = re.compile(
    r"^(?:\[gw\d+\] \[ *\d+%\] (FAILED|ERROR) )?(\S+?::[^\s\[]+(?:\[.*?\])?)"
    r"(?(1) *|(?: <- \S+)? (FAILED|ERROR)(?: +\[ *\d+%\])?)$",
    re.MULTILINE,
)
_PYTEST_SECTION: Final = re.compile(
    r"^_{2,} (?:(ERROR) at (?:setup|teardown) of )?(\S.*?) _{2,}$\n(.*?)(?=^_{2,} |^=+ |\Z)",
    re.MULTILINE | re.DOTALL,
)
_PYTEST_PLACE: Final = re.compile(r"^([^\s:/][^\s:]*\.py):\d+: ", re.MULTILINE)
_PYTEST_CUT: Final = re.compile(r"^!+ .*(?:Interrupted|stopping after|_pytest).* !+$", re.MULTILINE)
_UNITTEST_END: Final = re.compile(r"^FAILED \(([a-z0-9= ,]+)\)$", re.MULTILINE)
_UNITTEST_TEST: Final = re.compile(r"^={70}\n((?:FAIL|ERROR): .+)$", re.MULTILINE)
_COUNTED: Final = ("failed", "error", "errors", "failures")


class FailedTests(Struct, frozen=True, kw_only=True):
    names: frozenset[str] = frozenset()
    fault: str = ""  # why the names are not all there


def find_failed_tests(output: str) -> FailedTests:
    text = _COLOURS.sub("", output)
    pytest, unittest = _PYTEST_END.findall(text), _UNITTEST_END.findall(text)
    if len(pytest) + len(unittest) != 1:
        return FailedTests(
            fault="its output ends with more than one summary of pytest and unittest"
            if pytest or unittest
            else "its output has no summary of failed tests by pytest or unittest"
        )
    if pytest:
        return _read_pytest(text, pytest[0])
    names = frozenset(_UNITTEST_TEST.findall(text))
    return _complete(names, dict(part.split("=") for part in unittest[0].split(", ")))


def _read_pytest(text: str, end: str) -> FailedTests:
    if _PYTEST_CUT.search(text):
        return FailedTests(fault="pytest stopped before it had run all tests")
    counts = {word: number for number, word in (part.split(" ") for part in end.split(", "))}
    # The first form with names counts alone: a test that prints names of another form hides none.
    forms = map(frozenset, (_read_summary(text), _read_verbose(text), _read_sections(text)))
    return _complete(next(filter(None, forms), frozenset()), counts)


def _read_summary(text: str) -> Iterator[str]:
    return (f"{kind} {name}" for kind, name in _PYTEST_TEST.findall(text))


def _read_verbose(text: str) -> Iterator[str]:
    """Yield the names of the lines that `pytest -v` prints while it runs."""
    for first, name, last in _PYTEST_VERBOSE.findall(text):
        yield f"{first or last} {name}"


def _read_sections(text: str) -> Iterator[str]:
    """Yield the names of the tracebacks, with the file in which each begins."""
    for kind, title, body in _PYTEST_SECTION.findall(text):
        place = _PYTEST_PLACE.search(body)
        if place is not None:
            test, bracket, case = title.partition("[")
            name = f"{test.replace('.', '::')}{bracket}{case}"
            yield f"{kind or 'FAILED'} {place[1]}::{name}"


def _complete(names: frozenset[str], counts: dict[str, str]) -> FailedTests:
    number = sum(int(amount) for word, amount in counts.items() if word in _COUNTED)
    if "unexpected successes" in counts:
        return FailedTests(fault="tests passed that were expected to fail, which have no name")
    if number != len(names) or not names:
        return FailedTests(fault=f"its output names {len(names)} of {number} failed tests")
    return FailedTests(names=names)


def are_known(failed: FailedTests, known: Collection[str]) -> bool:
    """Tell whether only known tests failed."""
    return not failed.fault and failed.names.issubset(known)
