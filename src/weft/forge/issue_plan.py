"""A plan.md from the open issues of a forge. Pure.

An issue becomes a task: its number is the id, its text the detail. A text is written by anybody, so
it stands in the plan as a quotation, in which the reader of plans finds no task and no annotation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from weft.forge.forge_tools import read_items

_NEEDS: Final = re.compile(
    r"\b(?:depends\s+on|blocked\s+by|needs|requires)\s*:?\s*((?:#\d+[\s,]*(?:and\s+)?)+)",
    re.IGNORECASE,
)
_LISTED: Final = re.compile(r"^\s*[-*+]\s+\[[ xX]\]\s+#(\d+)\b", re.MULTILINE)
_NUMBER: Final = re.compile(r"#(\d+)")


class Issue(Struct, frozen=True, kw_only=True):
    number: int
    title: str
    body: str


class UnmetNeed(Struct, frozen=True, kw_only=True):
    """A need of an issue that is not in the plan: closed, or not asked for."""

    issue: int
    need: int


def read_issues(text: str) -> list[Issue]:
    issues = read_items(
        text,
        "gh",
        lambda item: Issue(
            number=int(item["number"]), title=str(item["title"]), body=str(item["body"] or "")
        ),
    )
    return sorted(issues, key=lambda issue: issue.number)


def write_plan(issues: Sequence[Issue]) -> tuple[str, list[UnmetNeed]]:
    """Return the plan, and the needs that it leaves out."""
    numbers = {issue.number for issue in issues}
    lines = ["# Issues", "", "## Phase 1: Open issues", "<!-- execution: parallel -->", ""]
    unmet = []
    for issue in issues:
        needs = find_needs(issue)
        unmet += [UnmetNeed(issue=issue.number, need=need) for need in needs if need not in numbers]
        lines += _task_lines(issue, [need for need in needs if need in numbers])
    return "\n".join(lines) + "\n", unmet


def find_needs(issue: Issue) -> list[int]:
    """Return the issues that an issue depends on, by its sentences and its task list."""
    sentences = [match[1] for match in _NEEDS.finditer(issue.body)]
    named = [number for sentence in sentences for number in _NUMBER.findall(sentence)]
    numbers = dict.fromkeys(int(number) for number in [*named, *_LISTED.findall(issue.body)])
    return sorted(number for number in numbers if number != issue.number)


def _task_lines(issue: Issue, needs: Iterable[int]) -> Iterator[str]:
    title = _harmless(" ".join(issue.title.split())) or "Untitled"
    depends = ", ".join(f"issue-{need}" for need in needs)
    yield f"- [ ] Task {issue.number}: {title} (#{issue.number})"
    yield f"  <!-- id: issue-{issue.number}{f'; depends: {depends}' if depends else ''} -->"
    for line in issue.body.strip().splitlines():
        yield f"  > {_harmless(line)}".rstrip()
    yield ""


def _harmless(text: str) -> str:
    """Break up HTML comments, which hold the annotations of a plan, and drop control characters."""
    broken = text.replace("<!--", "<!- -").replace("-->", "- ->")
    return "".join(char if char.isprintable() or char == "\t" else " " for char in broken)
