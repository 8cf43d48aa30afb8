"""`weft do`"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

import click

from weft.cli.output import json_option, print_json


@click.command(name="do")
@click.argument("text")
@click.option(
    "--files",
    multiple=True,
    metavar="GLOB",
    help="What it may change; repeat for more. Default: everything. `none`: nothing, a question.",
)
@click.option("--agent", default="implement", show_default=True, metavar="NAME")
@json_option
@click.pass_obj
def command(directory: Path, text: str, files: tuple[str, ...], agent: str, as_json: bool) -> int:
    """Have one agent do one task, now, in a workspace of its own.

    TEXT says what is to be done. The result is a commit on a branch of its own; your checkout is
    not touched. Ctrl-C once lets the agent end, twice ends it.

    \b
    weft do "Explain how admission works" --files none
    weft do "Fix the typo in the README" --files README.md
    """
    from weft.cli.following import Printer, follow  # late: they bring the event loop with them
    from weft.operations import project
    from weft.operations.do import hand_in

    logging.basicConfig(format="weft: %(message)s", level=logging.WARNING)
    found = project.find(directory, os.environ)
    with found.open_store() as store:
        task = hand_in(found, store, text, files=files, agent=agent)
        printer = Printer(quiet=as_json)
        follow(found, store, task, printer)
        result = summary(store, task)
    if as_json:
        print_json(result)
    else:
        for line in lines(result):
            click.echo(line)
    return 0 if result["state"] == "done" else 1


def summary(store: Any, task: int) -> dict[str, Any]:
    from weft.store.tasks import get_task, list_attempts

    about = get_task(store, task)
    attempts = list_attempts(store, task)
    last = attempts[-1] if attempts else None
    return {
        "task": task,
        "state": about.state.value,
        "reason": about.reason,
        "agent": about.agent,
        "attempts": len(attempts),
        "seconds": round(sum((one.ended or time.time()) - one.started for one in attempts), 3),
        "tokens": sum(one.tokens for one in attempts),
        "micro_usd": sum(one.micro_usd for one in attempts),
        "commit": last.candidate if last else None,
        "base": last.base if last else None,
        "branch": _branch(about.name, last.number) if last and last.candidate else None,
        "result": about.result,
    }


def _branch(name: str, attempt: int) -> str:
    from weft.attempt.begin import AD_HOC
    from weft.workspace import branch_ref

    return branch_ref(AD_HOC, name, attempt).removeprefix("refs/heads/")


def lines(result: dict[str, Any]) -> list[str]:
    """The summary for people."""
    head = f"task {result['task']}: {result['state']}"
    if result["reason"]:
        head += f" ({result['reason']})"
    cost = f", ${result['micro_usd'] / 1e6:.2f}" if result["micro_usd"] else ""
    tokens = f", {result['tokens']:,} tokens" if result["tokens"] else ""
    tries = f"{result['attempts']} attempt{'s' if result['attempts'] != 1 else ''}"
    found = ["", f"{head}: {tries}, {result['seconds']:.1f} s{tokens}{cost}"]
    if result["commit"]:
        base = result["base"][:12]
        found.append(f"commit {result['commit'][:12]} on branch {result['branch']}")
        found.append(f"  look:  git diff {base} {result['branch']}")
        if result["state"] == "done":
            found.append(f"  take:  git cherry-pick {result['branch']}")
    return found
