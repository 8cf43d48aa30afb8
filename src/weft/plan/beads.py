"""Reader of a beads export: a JSON object per line, as `bd export` writes issues.jsonl.

Open issues become tasks, named by their ids. The target of a `blocks` link comes first. A parent
comes after its children, and its blockers block the children too, as in `bd ready`. Other links are
ignored, and so are lines that hold no issue. Issues that are deferred, hooked, in progress or
assigned to a person, and issues that need them, are listed as warnings and not taken.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.model import HUMAN, State
from weft.plan import source, task_line
from weft.plan.json_document import Fields, JsonDocument, Node, NotJSON
from weft.plan.plan_records import (
    ItemKind,
    ParsedPlan,
    Phase,
    Plan,
    PlanTask,
    ReaderOptions,
    Reference,
    Source,
)
from weft.plan.problems import TOP, Problems, shorten

_STATUS: Final[Mapping[str, State]] = {
    "open": State.WAITING,
    "in_progress": State.WAITING,
    "hooked": State.WAITING,
    "blocked": State.BLOCKED,
    "deferred": State.WAITING,
    "closed": State.DONE,
    "tombstone": State.DONE,  # deleted
    "pinned": State.DONE,  # a note, not work
}
OWN_ACTOR: Final = "weft"
"""The name of weft in `bd`; `weft/<worker>` is the assignee of an issue that is worked on."""

_NOT_WORK: Final = frozenset({"message", "event"})
_DETAILS: Final = ("description", "design", "acceptance_criteria", "notes")


class _Issue(Struct, frozen=True, kw_only=True):
    fields: Fields
    task: PlanTask
    blockers: tuple[tuple[str, Node], ...]
    parents: tuple[tuple[str, Node], ...]
    node: Node
    held: str  # why it is not taken; empty if it is
    deferred: bool  # its children are deferred with it


_BEAD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)+(?:\.[0-9]+)*")


def is_bead(id: str) -> bool:
    """Tell whether the id of a task in a plan.md may be that of an issue: `bd-a1b2`."""
    return _BEAD.fullmatch(id) is not None


def is_own(assignee: str) -> bool:
    """Tell whether an issue is assigned to weft, or to a worker of weft's."""
    return assignee == OWN_ACTOR or assignee.startswith(f"{OWN_ACTOR}/")


def read(name: str, data: bytes, options: ReaderOptions) -> ParsedPlan:
    """Read a beads export; for any bytes, return a plan and its problems."""
    problems = Problems(name)
    text = source.decode(data, problems)
    issues: dict[str, _Issue] = {}
    for number, line in enumerate(text.lines if text else (), 1):
        if not line.strip():
            continue
        try:
            fields = Fields(JsonDocument(line), problems, number)
        except NotJSON as wrong:
            problems.error(
                (number, wrong.offset + 1),
                "not-json",
                f"{wrong.message}.",
                "Each line is one JSON object, as `bd export` writes it.",
                "",
            )
            continue
        issue = _issue(fields, fields.document.root, options)
        if issue is not None:
            # An export may hold an issue twice; the later line is newer.
            issues[issue.task.id] = issue
    open_ones = {id: issue for id, issue in issues.items() if not issue.task.settled}
    open_ones = _taken(open_ones, options.take)
    if not issues and not problems.failed:
        problems.error(TOP, "no-tasks", "There is no issue in this file.", "Run `bd export`.")
    return ParsedPlan(plan=_plan(name, open_ones, issues), problems=problems.sorted())


def _plan(name: str, open_ones: Mapping[str, _Issue], issues: Mapping[str, _Issue]) -> Plan:
    parents = _parents(open_ones, issues)
    with_children = set(parents.values())
    tasks = []
    for id, issue in open_ones.items():
        task = replace(
            issue.task, parent=parents.get(id), depends=_blockers(issue, open_ones, issues)
        )
        if id in with_children:
            task = replace(task, kind=ItemKind.EPIC, files=task.files or ())
        if task.status is State.BLOCKED and task.depends and not task.note:
            # Its blockers are in the plan, so it only waits.
            task = replace(task, status=State.WAITING)
        issue.fields.report_no_files(
            issue.node,
            task,
            'Add {"files": […]} to its metadata, or {"files": "none"} if it changes nothing.',
        )
        tasks.append(task)
    return Plan(
        name=name,
        source=Source.BEADS,
        phases=(Phase(label="", title="", line=1, parallel=True, depends=()),),
        tasks=tuple(tasks),
    )


def _taken(issues: Mapping[str, _Issue], take: Collection[str]) -> dict[str, _Issue]:
    """Return the issues to work on; list those that are held back, and those that need them."""
    held = {id: issue.held for id, issue in issues.items() if issue.held and id not in take}
    followers = _followers(issues)
    waiting = list(held)
    while waiting:
        cause = waiting.pop()
        for id, words in followers.get(cause, ()):
            if id not in held:
                held[id] = f"{words} {shorten(cause)}, which is not taken"
                waiting.append(id)
    for id, why in held.items():
        issue = issues[id]
        issue.fields.warn(
            issue.node,
            "not-taken",
            f"{shorten(id)} is not taken: it {why}.",
            f"`--take {shorten(id)}` takes it."
            if issue.held
            else "Take that issue too, or close it first.",
        )
    return {id: issue for id, issue in issues.items() if id not in held}


def _followers(issues: Mapping[str, _Issue]) -> dict[str, list[tuple[str, str]]]:
    """Map each issue to those that are not taken without it, each with the words for it."""
    followers: dict[str, list[tuple[str, str]]] = {}
    for id, issue in issues.items():
        for to, _ in issue.blockers:
            followers.setdefault(to, []).append((id, "needs"))
        for to, _ in issue.parents:
            followers.setdefault(id, []).append((to, "ends with"))
            if to in issues and issues[to].deferred:
                followers.setdefault(to, []).append((id, "is part of"))
    return {
        id: [(follower, words) for follower, words in pairs if follower in issues]
        for id, pairs in followers.items()
    }


def _held(fields: Fields, given: Mapping[str, Node], options: ReaderOptions) -> tuple[str, bool]:
    """Return why nobody but its owner works on an issue, and whether it is deferred."""
    status = fields.text(given.get("status"))
    until = fields.text(given.get("defer_until"))
    if status == "deferred" or (until and _later(until, options.now)):
        return f"is deferred until {shorten(until)}" if until else "is deferred", True
    owner = fields.text(given.get("assignee"))
    if is_own(owner):
        return "", False
    by = f" by {shorten(owner)}" if owner else ""
    if status in ("in_progress", "hooked"):
        return f"is {status.replace('_', ' ')}{by}", False
    return (f"is assigned to {shorten(owner)}", False) if owner else ("", False)


def _later(text: str, now: float) -> bool:
    """Tell whether a time in ISO 8601 is to come; a time that cannot be read is."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return True
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() > now


def _issue(fields: Fields, node: Node, options: ReaderOptions) -> _Issue | None:
    if not isinstance(node.value, dict):
        fields.error(node, "bad-value", "Each line is one JSON object.", "Run `bd export` again.")
        return None
    given = node.value
    type = fields.text(given.get("issue_type") or given.get("type"))
    if "id" not in given and ("_type" in given or "title" not in given):
        # Exports may carry memories and settings beside the issues.
        return None
    if "id" not in given:
        fields.error(node, "bad-value", "An issue needs an id.", "Run `bd export` again.")
        return None
    id = fields.word(given["id"])
    if not id or type in _NOT_WORK:
        return None
    line, column = fields.place(node)
    text = " ".join(fields.text(given.get("title")).split())
    status = _status(fields, given)
    if not text and status is not State.DONE:
        fields.error(node, "empty-task", f"{shorten(id)} has no title.", "Give it one.")
    extra = _metadata(fields, given.get("metadata"))
    attributes = fields.attributes(extra)
    if "agent" not in extra and task_line.asks_for_a_person(text):
        attributes["agent"] = HUMAN
    held, deferred = _held(fields, given, options)
    links = [_link(fields, each) for each in fields.listed(given.get("dependencies"))]
    task = PlanTask(
        id=id,
        phase="",
        label=id,
        text=text,
        line=line,
        column=column,
        details="\n\n".join(
            part for key in _DETAILS if (part := fields.text(given.get(key)).strip())
        ),
        status=status,
        files=() if attributes.get("agent") == HUMAN else fields.files(extra.get("files")),
        priority=fields.priority(given.get("priority")),
        named=True,
        **attributes,
    )
    return _Issue(
        fields=fields,
        task=task,
        blockers=tuple((to, at) for kind, to, at in links if kind == "blocks" and to),
        parents=tuple((to, at) for kind, to, at in links if kind == "parent-child" and to),
        node=node,
        held=held,
        deferred=deferred,
    )


def _status(fields: Fields, given: Mapping[str, Node]) -> State:
    word = fields.text(given.get("status")) or "open"
    if word not in _STATUS:
        fields.error(
            given["status"],
            "bad-value",
            f"The status {shorten(word)!r} is not known.",
            fields.problems.suggest(word, _STATUS, f"Known are {', '.join(_STATUS)}."),
        )
    return _STATUS.get(word, State.BLOCKED)


def _link(fields: Fields, node: Node) -> tuple[str, str, Node]:
    if not isinstance(node.value, dict) or "depends_on_id" not in node.value:
        fields.error(
            node, "bad-value", "Here a link to another issue is expected.", "Run `bd export` again."
        )
        return "", "", node
    kind = fields.text(node.value.get("type")) or "blocks"
    return kind, fields.word(node.value["depends_on_id"]), node.value["depends_on_id"]


def _metadata(fields: Fields, node: Node | None) -> Mapping[str, Node]:
    """Return the author's own fields; some versions of bd export them as a string of JSON."""
    if node is None or not node.value:
        return {}
    value = node.value
    if isinstance(value, str):
        try:
            value = JsonDocument(value).root.value
        except NotJSON:
            value = None
        if isinstance(value, dict):
            for inner in value.values():
                # Its places lie within the string; that of the string will do.
                _move(inner, node.at)
    if isinstance(value, dict):
        return value
    fields.warn(node, "bad-value", "The metadata is no JSON object.", 'Write {"files": […]}.')
    return {}


def _move(node: Node, at: int) -> None:
    node.at = at
    if isinstance(node.value, list):
        for inner in node.value:
            inner.at = at


def _parents(open_ones: Mapping[str, _Issue], issues: Mapping[str, _Issue]) -> dict[str, str]:
    """Map issues to their open parents; no issue is its own ancestor."""
    parents: dict[str, str] = {}
    for id, issue in open_ones.items():
        for to, at in issue.parents:
            if to not in issues:
                issue.fields.warn(
                    at,
                    "unknown-task",
                    f"The parent {shorten(to)!r} of {shorten(id)} is not in this file.",
                    "Export all issues together.",
                )
            elif to in open_ones and id not in parents:
                if _descends(to, id, parents):
                    issue.fields.error(
                        at,
                        "cycle",
                        f"{shorten(id)} (line {issue.task.line}) and {shorten(to)} "
                        f"(line {open_ones[to].task.line}) are each other's parents.",
                        "Remove one of the two links.",
                    )
                else:
                    parents[id] = to
    return parents


_DEEPEST: Final = 100


def _descends(id: str, ancestor: str, parents: Mapping[str, str]) -> bool:
    for _ in range(_DEEPEST):
        if id == ancestor:
            return True
        if id not in parents:
            return False
        id = parents[id]
    # Deeper nesting counts as a circle, to bound the search.
    return True


def _blockers(
    issue: _Issue, open_ones: Mapping[str, _Issue], issues: Mapping[str, _Issue]
) -> tuple[Reference, ...]:
    references: dict[str, Reference] = {}
    for to, at in issue.blockers:
        line, column = issue.fields.place(at)
        if to in open_ones:
            references[to] = Reference(to=to, line=line, column=column)
        elif to not in issues:
            issue.fields.warn(
                at,
                "unknown-task",
                f"{shorten(issue.task.id)} is blocked by {shorten(to)!r}, "
                "which is not in this file and counts as closed.",
                issue.fields.problems.suggest(to, issues, "Export all issues together."),
            )
    return tuple(references.values())
