#!/usr/bin/env python3
"""A stand-in for `gh` that keeps pull requests and issues beside a real bare repository.

`GH_STAND_IN` names its directory: `forge.json` holds the requests and issues, `remote.git` is the
repository. It refuses what the forge would, and `faults` in `forge.json` are answered first, one
for each call.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

HOME = Path(os.environ["GH_STAND_IN"])
STATE = HOME / "forge.json"
REMOTE = HOME / "remote.git"


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def fail(text: str, status: int = 1) -> NoReturn:
    sys.stderr.write(text + "\n")
    sys.exit(status)


def find_tip(branch: str) -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"],
        cwd=REMOTE,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def list_requests(forge: dict[str, Any], given: argparse.Namespace) -> None:
    found = [
        request
        for request in forge["requests"]
        if request["headRefName"] == given.head and request["baseRefName"] == given.base
    ]
    fields = given.json.split(",")
    for request in found:
        if request["state"] == "OPEN":
            request["headRefOid"] = find_tip(request["headRefName"])
    say(json.dumps([{field: request[field] for field in fields} for request in found]))


def create(forge: dict[str, Any], given: argparse.Namespace) -> None:
    head, base = find_tip(given.head), find_tip(given.base)
    if not head or not base:
        fail(
            "pull request create failed: GraphQL: Head sha can't be blank, Base sha can't be blank"
        )
    if head == base:
        fail(
            f"pull request create failed: GraphQL: No commits between {given.base} and {given.head}"
        )
    if any(r["headRefName"] == given.head and r["state"] == "OPEN" for r in forge["requests"]):
        fail(f'a pull request for branch "{given.head}" already exists')
    number = len(forge["requests"]) + 1
    url = f"https://forge.example/o/r/pull/{number}"
    forge["requests"].append(
        {
            "number": number,
            "url": url,
            "state": "OPEN",
            "headRefName": given.head,
            "baseRefName": given.base,
            "headRefOid": head,
            "title": given.title,
            "body": sys.stdin.read(),
        }
    )
    say(url)


def edit(forge: dict[str, Any], given: argparse.Namespace) -> None:
    [request] = [r for r in forge["requests"] if r["number"] == given.number]
    request["title"], request["body"] = given.title, sys.stdin.read()
    say(request["url"])


def list_issues(forge: dict[str, Any], given: argparse.Namespace) -> None:
    found = [
        issue
        for issue in forge["issues"]
        if set(given.label) <= set(issue.get("labels", ()))
        and given.milestone in (None, issue.get("milestone"))
    ]
    fields = given.json.split(",")
    say(json.dumps([{field: issue.get(field, "") for field in fields} for issue in found]))


def parse(arguments: list[str]) -> argparse.Namespace:
    """Only the flags that the real program has, as `test_every_flag…` compares."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    areas = parser.add_subparsers(dest="area", required=True)
    requests = areas.add_parser("pr").add_subparsers(dest="verb", required=True)
    listing = requests.add_parser("list")
    for flag in ("--head", "--base", "--state", "--limit", "--json"):
        listing.add_argument(flag, required=True)
    listing.set_defaults(act=list_requests)
    creation = requests.add_parser("create")
    for flag in ("--head", "--base", "--title", "--body-file"):
        creation.add_argument(flag, required=True)
    creation.set_defaults(act=create)
    change = requests.add_parser("edit")
    change.add_argument("number", type=int)
    for flag in ("--title", "--body-file"):
        change.add_argument(flag, required=True)
    change.set_defaults(act=edit)
    issues = areas.add_parser("issue").add_subparsers(dest="verb", required=True).add_parser("list")
    for flag in ("--state", "--limit", "--json"):
        issues.add_argument(flag, required=True)
    issues.add_argument("--label", action="append", default=[])
    issues.add_argument("--milestone")
    issues.set_defaults(act=list_issues)
    return parser.parse_args(arguments)


def main() -> None:
    forge = json.loads(STATE.read_text())
    forge["calls"].append({"argv": sys.argv[1:], "token": os.environ.get("GH_TOKEN", "")})
    given = parse(sys.argv[1:])
    fault = forge["faults"].pop(0) if forge["faults"] else ""
    STATE.write_text(json.dumps(forge))
    if fault:
        fail(fault)
    given.act(forge, given)
    STATE.write_text(json.dumps(forge))


if __name__ == "__main__":
    main()
