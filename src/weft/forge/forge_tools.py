"""Command lines of the forges' tools, and the meaning of their answers. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct

from weft.errors import InputError

Item = TypeVar("Item")

_MOST: Final = 1000  # issues that are asked for
_STATES: Final = {"opened": "open", "locked": "open"}


class PullRequest(Struct, frozen=True, kw_only=True):
    """A pull request of GitHub, or a merge request of GitLab."""

    number: int
    url: str
    state: str  # open, closed, merged
    head: str  # the commit that was pushed last


class Proposal(Struct, frozen=True, kw_only=True):
    """The content of a pull request."""

    title: str
    body: str
    base: str
    head: str  # a branch


class ToolCall(Struct, frozen=True, kw_only=True):
    """A command line and its standard input."""

    argv: tuple[str, ...]
    input: str = ""


class ForgeTool(Struct, frozen=True, kw_only=True):
    """The calls of a tool."""

    name: str
    reopen: str  # the command that opens a closed pull request again; its number follows
    list_requests: Callable[[str, str], ToolCall]  # of a head and a base
    read_requests: Callable[[str], list[PullRequest]]
    create: Callable[[Proposal], ToolCall]
    update: Callable[[int, Proposal], ToolCall]


def _list_by_gh(head: str, base: str) -> ToolCall:
    about = ("--head", head, "--base", base, "--state", "all", "--limit", "100")
    return ToolCall(argv=("gh", "pr", "list", *about, "--json", "number,state,url,headRefOid"))


def _read_from_gh(text: str) -> list[PullRequest]:
    return read_items(
        text,
        "gh",
        lambda item: PullRequest(
            number=int(item["number"]),
            url=str(item["url"]),
            state=str(item["state"]).lower(),
            head=str(item.get("headRefOid", "")),
        ),
    )


def _create_by_gh(new: Proposal) -> ToolCall:
    about = ("--base", new.base, "--head", new.head, "--title", new.title)
    return ToolCall(argv=("gh", "pr", "create", *about, "--body-file", "-"), input=new.body)


def _update_by_gh(number: int, new: Proposal) -> ToolCall:
    about = (str(number), "--title", new.title, "--body-file", "-")
    return ToolCall(argv=("gh", "pr", "edit", *about), input=new.body)


def _list_by_glab(head: str, base: str) -> ToolCall:
    about = ("--all", "--source-branch", head, "--target-branch", base)
    return ToolCall(argv=("glab", "mr", "list", *about, "--output", "json"))


def _read_from_glab(text: str) -> list[PullRequest]:
    return read_items(
        text,
        "glab",
        lambda item: PullRequest(
            number=int(item["iid"]),
            url=str(item["web_url"]),
            state=_STATES.get(str(item["state"]), str(item["state"])),
            head=str(item.get("sha", "")),
        ),
    )


def _create_by_glab(new: Proposal) -> ToolCall:
    branches = ("--source-branch", new.head, "--target-branch", new.base)
    about = ("--title", new.title, "--description", new.body)
    return ToolCall(argv=("glab", "mr", "create", *branches, *about, "--yes"))


def _update_by_glab(number: int, new: Proposal) -> ToolCall:
    about = ("--title", new.title, "--description", new.body)
    return ToolCall(argv=("glab", "mr", "update", str(number), *about))


GH: Final = ForgeTool(
    name="gh",
    reopen="gh pr reopen",
    list_requests=_list_by_gh,
    read_requests=_read_from_gh,
    create=_create_by_gh,
    update=_update_by_gh,
)
GLAB: Final = ForgeTool(
    name="glab",
    reopen="glab mr reopen",
    list_requests=_list_by_glab,
    read_requests=_read_from_glab,
    create=_create_by_glab,
    update=_update_by_glab,
)


def list_issues(labels: Sequence[str], milestone: str | None) -> ToolCall:
    wanted = [word for label in labels for word in ("--label", label)]
    wanted += [] if milestone is None else ["--milestone", milestone]
    about = ("--state", "open", "--limit", str(_MOST), "--json", "number,title,body")
    return ToolCall(argv=("gh", "issue", "list", *about, *wanted))


def read_items(text: str, tool: str, make: Callable[[dict[str, Any]], Item]) -> list[Item]:
    """Read a list of JSON objects, the answer of a tool, and make a record of each."""
    try:
        items = json.loads(text or "[]")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{tool} answered with text that is not JSON: {error}.") from error
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InputError(f"{tool} answered with JSON that is not a list of objects.")
    try:
        return [make(item) for item in items]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{tool} answered with an object weft cannot read: {error!r}.") from error
