"""`weft do`"""

from __future__ import annotations

from typing import Any, Final

import click

from weft.cli.command_arguments import pass_project, read_labels
from weft.cli.output import json_option, print_json, say
from weft.cli.task_follower import TaskFollower, follow_to_end
from weft.errors import InputError
from weft.formats import count, dollars, duration
from weft.operations import single_task
from weft.project.project import Project
from weft.store.event_log import last_event
from weft.words import state_word

_LINES: Final = 20  # of a long reason


@click.command(name="do")
@click.argument("text")
@click.option(
    "--files",
    multiple=True,
    metavar="GLOB",
    help="The files it may change, from the root of the repository; repeat for more. A change "
    "outside is refused. Default: every file. `none`: no file, for a question.",
)
@click.option("--keep-outside", is_flag=True, help="Keep changes outside --files as well.")
@click.option(
    "--needs-label",
    "needs_labels",
    multiple=True,
    callback=read_labels,
    metavar="LABEL",
    help="Only a worker with this label takes it (weft worker --label); repeat for more.",
)
@click.option("--agent", default="implement", show_default=True, metavar="NAME")
@click.option(
    "--team",
    metavar="TEAM",
    help="Let several entrants do it, and land the best candidate on a branch weft/<run>: hedge, "
    "best-of 3, 3 of NAME, or names of agents; `; judge: NAME` adds a judge.",
)
@json_option
@pass_project
def command(
    project: Project,
    text: str,
    files: tuple[str, ...],
    keep_outside: bool,
    needs_labels: tuple[str, ...],
    agent: str,
    team: str | None,
    as_json: bool,
) -> int:
    """Have one agent do one task now, in its own workspace.

    TEXT says what is to be done. The result is a commit on a branch of its own; your checkout is
    not touched. Ctrl-C once lets the agent end, twice ends it.

    \b
    weft do "Explain how admission works" --files none
    weft do "Fix the typo in the README" --files README.md
    weft do "Hello" --agent try          without a model and without a key
    weft do "Speed up the parser" --team "best-of 3; judge: judge"
    """
    if team is not None:
        if keep_outside:
            raise InputError("--keep-outside is for a single agent; a team keeps to its claims.")
        return _do_in_team(project, text, team, files, agent, needs_labels, as_json)
    about: dict[str, Any] = {
        "files": files,
        "agent": agent,
        "keep_outside": keep_outside,
        "needs_labels": needs_labels,
    }
    request = None if project.server else single_task.check(project, text, **about)
    with project.open_store() as store:
        after = last_event(store)
        if request is None:
            task = single_task.submit_text(project, text, **about)
        else:
            task = single_task.submit_task(project, store, request)
        follower = TaskFollower(store, task, after=after, quiet=as_json)
        status = follow_to_end(project, store, task, follower)
        result = single_task.summary(store, task)
    if as_json:
        print_json(result)
    else:
        for line in lines(result):
            say(line)
    return status if status else int(result["state"] != "done")


def _do_in_team(
    project: Project,
    text: str,
    team: str,
    files: tuple[str, ...],
    agent: str,
    needs_labels: tuple[str, ...],
    as_json: bool,
) -> int:
    """Submit a run for the team and follow it."""
    from weft.cli.run import choose_output, see_through  # late: imports all of plans
    from weft.cli.run_follower import Follow
    from weft.operations.single_task import submit_team_task

    with project.open_store() as store:
        after = last_event(store)
        run = submit_team_task(
            project, text, team, files=files, agent=agent, needs_labels=needs_labels
        )
        what = Follow(
            run=run,
            plan=None,
            slots=project.config.worker_slots,
            after=after,
            writes=False,
            shows=choose_output(no_tty=True, as_json=as_json),
        )
        return see_through(project, store, what, None)


def lines(result: dict[str, Any]) -> list[str]:
    """Return the summary for people."""
    head = f"task {result['task']}: {state_word(result['state'])}"
    if result["reason"] and result["state"] != "blocked":
        head += f" ({result['reason']})"
    cost = f", {dollars(result['micro_usd'])}" if result["micro_usd"] else ""
    tokens = f", {result['tokens']:,} tokens" if result["tokens"] else ""
    tries = count(result["attempts"], "attempt")
    shown = ["", f"{head}: {tries}, {duration(result['seconds'])}{tokens}{cost}"]
    if result["state"] == "blocked":  # the first line of the reason was printed before
        shown += [f"  {line}" for line in result["reason"].splitlines()[1:][-_LINES:]]
    if result["commit"]:
        base = result["base"][:12]
        shown.append(f"commit {result['commit'][:12]} at {result['branch']}")
        shown.append(f"  look:  git diff {base} {result['branch']}")
        anyway = "" if result["state"] == "done" else " anyway"
        shown.append(f"  take{anyway}:  git cherry-pick {result['branch']}")
    return shown
