"""`weft publish`"""

from __future__ import annotations

import os
from pathlib import Path

import click
from msgspec.structs import asdict

from weft.cli.output import json_option, print_json, say
from weft.cli.task_arguments import run_argument
from weft.forge.publication import Publication, PublishKind, publish_run
from weft.gate.run_landing import choose_branch, choose_run
from weft.project.project import get_local_project
from weft.project.warning_log import show_warnings


@click.command(name="publish")
@run_argument
@click.option(
    "--onto", metavar="BRANCH", help="Merge into this branch. Default: the branch RUN started from."
)
@json_option
@click.pass_obj
def command(directory: Path, run: str | None, onto: str | None, as_json: bool) -> int:
    """Push the branch of a run; open or update its pull request.

    RUN is the newest ended run unless you name one. Your own `gh` or `glab`, or the command under
    [publish] in weft.toml, does the rest: weft sees no token.
    """
    return publish(directory, run, onto, as_json)


def publish(directory: Path, name: str | None, onto: str | None, as_json: bool) -> int:
    show_warnings()
    place = get_local_project(directory, os.environ)
    with place.open_store() as store:
        run = choose_run(store, name)
        done = publish_run(place, store, run, choose_branch(place.root, run, onto))
    if as_json:
        print_json({**asdict(done), "kind": done.kind.value})
    else:
        for line in _lines(done):
            say(line)
    return 0


def _lines(done: Publication) -> list[str]:
    where = done.url or f"{done.head} onto {done.base}"
    if done.kind is PublishKind.MERGED:
        return [f"✓ {where} was merged on the forge already; nothing was pushed"]
    if done.kind is PublishKind.HANDED_OVER:
        return [f"✓ {done.head} is pushed, and the command has it", *done.output.splitlines()]
    return [f"✓ {done.head} is pushed at {done.commit[:12]}; {done.kind} {where}"]
