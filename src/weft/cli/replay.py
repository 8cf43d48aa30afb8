"""`weft replay`"""

from __future__ import annotations

import time
from pathlib import Path

import click

from weft.cli.output import json_option, print_json, say
from weft.cli.project_argument import pass_project
from weft.cli.run_follower import Follow, follow
from weft.project.project import Project
from weft.runs.progress import read_progress
from weft.runs.recorded_runs import compare_results, replay
from weft.store.event_log import last_event
from weft.words import progress_text


@click.command(name="replay")
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
def command(
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
    same = old == new
    if as_json:
        print_json(
            {
                "run": made.run,
                "original": made.original,
                "recordings": made.recordings,
                "state": progress.run.state,
                "tree": new,
                "original_tree": old,
                "same": same,
                "seconds": round(time.monotonic() - began, 3),
            }
        )
    else:
        verdict = "the same tree" if same else "another tree"
        say(f"{made.run}: {progress_text(progress.counts)}; {verdict} as {made.original}")
        if not same:
            say(f"compare: git diff weft/{made.original} weft/{made.run}")
    return followed.code if followed.code else int(not same)
