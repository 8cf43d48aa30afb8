"""`weft run`"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from weft.cli.output import json_option, print_json, say
from weft.errors import InputError


@click.command(name="run")
@click.argument("file", required=False, metavar="FILE")
@click.option(
    "--resume",
    "resumed",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[RUN]",
    help="Go on with an unfinished run instead.",
)
@click.option("--slots", type=click.IntRange(1, 256), metavar="N", help="Agents at a time.")
@click.option(
    "--agent",
    default="implement",
    show_default=True,
    metavar="NAME",
    help="For tasks that name none.",
)
@click.option("--stages", metavar="LIST", help="For tasks that name none: test,implement.")
@click.option(
    "--base", default="HEAD", show_default=True, metavar="REF", help="What the run starts from."
)
@click.option("--into", metavar="BRANCH", help="Move this branch to the result when all landed.")
@click.option("--budget", metavar="DOLLARS", help="What the whole run may spend.")
@click.option("--dry-run", is_flag=True, help="Show what would happen, and do nothing.")
@click.option(
    "--no-write", is_flag=True, help="Leave the marks in FILE alone, or its issues in bd."
)
@click.option("--no-tty", is_flag=True, help="Plain lines, also on a terminal.")
@json_option
@click.pass_obj
def command(
    directory: Path,
    file: str | None,
    resumed: str | None,
    slots: int | None,
    agent: str,
    stages: str | None,
    base: str,
    into: str | None,
    budget: str | None,
    dry_run: bool,
    no_write: bool,
    no_tty: bool,
    as_json: bool,
) -> int:
    """Run a plan: every task by an agent of its own, all that passes on one branch.

    FILE is a plan.md, a prd.json or a beads export. The result is the branch weft/<run>, on
    which everything that landed has passed the checks of weft.toml; your checkout is not
    touched. Ctrl-C lets running agents end, twice ends them; `weft run --resume` goes on.
    """
    from weft.cli.run_follow import Follow, follow
    from weft.cli.run_summary import figures, figures_as_dict, summary_lines
    from weft.cli.run_text import print_forecast, print_problems
    from weft.cli.warn import show_warnings
    from weft.operations import plans, project
    from weft.operations.running import find_unfinished, get_to_resume, look, move_into, summary
    from weft.operations.submission import Wishes, hand_in
    from weft.store.events import last_event, list_surroundings

    show_warnings()
    if (file is None) == (resumed is None):
        raise InputError("Name a plan to run, or --resume to go on with a run.")
    found = project.find(directory, os.environ)
    with found.open_store() as store:
        before = last_event(store)
        if resumed is not None:
            run = get_to_resume(store, resumed or None).id
        else:
            assert file is not None
            path = directory / file
            unfinished = find_unfinished(store, path)
            if unfinished:
                raise InputError(
                    f"{file} is being run already as {unfinished[0].id}; "
                    f"`weft run --resume {unfinished[0].id}` goes on with it."
                )
            with plans.setting(directory, os.environ) as around:
                checked = plans.check(plans.load(directory, file), around, slots)
            print_problems(checked)
            if checked.failed:
                raise InputError(f"{file} has errors; mend them first (`weft plan check {file}`).")
            if not as_json:
                print_forecast(checked)
            wishes = Wishes(
                agent=agent,
                stages=tuple(one.strip() for one in (stages or "").split(",") if one.strip()),
                slots=slots,
                base=base,
                micro_usd=_micro_dollars(budget),
            )
            if dry_run:
                return 0
            run = hand_in(found, store, checked, path, wishes).run
        what = Follow(
            run=run,
            slots=slots or found.config.worker_slots,
            after=before,
            writes=not no_write,
            shows=_shows(no_tty, as_json),
        )
        try:
            followed = follow(found, store, what)
        except KeyboardInterrupt:
            click.echo(f"weft: interrupted; `weft run --resume {run}` goes on.", err=True)
            raise
        progress = look(store, run)
        told = figures(
            progress,
            followed.track.edges,
            slots or plans.usual_slots(found.config),
            followed.track.ended_at,
        )
        changed = list_surroundings(store, run)
        moved = move_into(found, run, into) if into and progress.ended else None
        if as_json:
            yours = [{"task": one.task, "changes": one.data["changes"]} for one in changed]
            more = {**figures_as_dict(told), "surroundings_changed": yours, "into": moved}
            print_json({**summary(progress), **more})
        else:
            for line in summary_lines(progress, told, changed, moved):
                say(line)
    return followed.code


def _shows(no_tty: bool, as_json: bool) -> str:
    """How a run is followed: as a view, as lines, or as nothing but its result."""
    if as_json:
        return "nothing"
    if no_tty or not sys.stdout.isatty():
        return "lines"
    from weft.cli.view import is_possible

    return "view" if is_possible() else "lines"


def _micro_dollars(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        dollars = float(text.strip().removeprefix("$"))
    except ValueError:
        dollars = -1.0
    if not 0 < dollars < 1_000_000:
        raise InputError(f"--budget must be dollars, above 0, not {text!r}.")
    return round(dollars * 1_000_000)
