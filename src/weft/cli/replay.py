"""`weft recordings`"""

from __future__ import annotations

import time
from pathlib import Path

import click

from weft.cli.command_arguments import pass_project
from weft.cli.output import json_option, say, show
from weft.cli.run_follower import Follow, follow
from weft.formats import count
from weft.operations.recorded_runs import compare_results, record, replay
from weft.project.project import Project
from weft.runs.progress import read_progress
from weft.store.event_log import last_event
from weft.words import progress_text


@click.group(name="recordings")
def command() -> None:
    """Save attempts as files; play a run again from them."""


@command.command(name="save")
@click.argument("name", metavar="TASK|RUN")
@click.option(
    "-o",
    "--output",
    "directory",
    required=True,
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the recordings go.",
)
@json_option
@click.pass_obj
@pass_project
def save(project: Project, here: Path, name: str, directory: Path, as_json: bool) -> None:
    """Save the attempts of a task or run as files.

    Each file has the command line, the prompt, the output with its times, the calls of weft's
    tools, the use, the exit and the change of an attempt, without secrets. An agent file with
    `runs: recorded` and `from: DIRECTORY` plays them; `weft recordings play RUN` plays a whole run.
    """
    with project.open_store() as store:
        done = record(project, store, name, (here / directory).resolve())
    lines = [f"recorded {count(len(done.files), 'attempt')} in {directory}"]
    lines += [f"left out: {reason}" for reason in done.left_out]
    show(done, lines, as_json=as_json)


@command.command(name="play")
@click.argument("name", metavar="RUN")
@click.option(
    "--from",
    "directory",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, file_okay=False),
    help="Recordings to play instead of those made now.",
)
@click.option("--fast", is_flag=True, help="Print the recorded lines without their pauses.")
@json_option
@click.pass_obj
@pass_project
def play(
    project: Project, here: Path, name: str, directory: Path | None, fast: bool, as_json: bool
) -> int:
    """Run a run again, with recordings instead of agents.

    The new run starts from the same base and has the same tasks. Leases, claims, checks and
    landings are real; the agents print what they printed and change what they changed. Exits with 0
    if the same tree comes out.
    """
    with project.open_store() as store:
        before = last_event(store)
        began = time.monotonic()
        place = None if directory is None else (here / directory).resolve()
        made = replay(project, store, name, directory=place, fast=fast)
        if not as_json:
            say(f"run {made.run} plays {made.original} from {made.recordings}")
        what = Follow(
            run=made.run,
            plan=None,
            slots=project.config.worker_slots,
            after=before,
            writes=False,
            shows="result" if as_json else "lines",
        )
        followed = follow(project, store, what)
        progress = read_progress(store, made.run)
    old, new = compare_results(project, made)
    fields = {
        "run": made.run,
        "original": made.original,
        "recordings": made.recordings,
        "state": progress.run.state,
        "tree": new,
        "original_tree": old,
        "same": old == new,
        "seconds": round(time.monotonic() - began, 3),
    }
    verdict = "the same tree" if old == new else "another tree"
    lines = [f"{made.run}: {progress_text(progress.counts)}; {verdict} as {made.original}"]
    if old != new:
        lines.append(f"compare: git diff weft/{made.original} weft/{made.run}")
    show(fields, lines, as_json=as_json)
    return followed.code if followed.code else int(old != new)
