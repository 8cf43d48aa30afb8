"""`weft run`"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource
from msgspec.structs import replace

from weft import bounds
from weft.cli.check_progress import CheckProgress
from weft.cli.output import json_option, print_json, printable, say
from weft.cli.plan.plan_text import format_option, take_option
from weft.cli.run_follower import Follow, follow
from weft.cli.run_list import difference_lines
from weft.cli.run_preview import Ahead, as_dict, dry_run_lines, head_lines, prepare_plan
from weft.cli.run_summary import figures_as_dict, summary_lines
from weft.cli.view import is_possible
from weft.config import command_line
from weft.errors import InputError
from weft.formats import count, listed, micro_dollars
from weft.model import Run, State, TargetState
from weft.operations.registry import ask
from weft.operations.run_changes import (
    choose_target,
    require_agents_of_run,
    restart_options,
    set_agent,
    set_budget,
    set_slots,
)
from weft.operations.steering import CancelAsked
from weft.operations.submission import RunDraft, preview_draft, submit_draft
from weft.plan.plan_records import Source
from weft.project.project import Project, get_project
from weft.project.warning_log import show_warnings
from weft.runs import plan_file
from weft.runs.agent_readiness import require_agents
from weft.runs.plan_check import usual_slots
from weft.runs.plan_state import require_state_file
from weft.runs.preparation import USUAL_AGENT, RunOptions
from weft.runs.progress import (
    CLAIMS_EXTENDED,
    find_plan,
    find_unfinished,
    get_resumable,
    list_outside,
    read_progress,
    summary,
)
from weft.runs.run_figures import measure_run, read_waits
from weft.runs.run_settings import list_differences
from weft.runs.wanted_projections import (
    find_format,
    release_marked,
    request_state_file,
    resume_projections,
)
from weft.store import Store
from weft.store.event_log import last_event, list_of_kind
from weft.store.gate import list_check_spans, skip_base_check
from weft.store.tasks import list_run
from weft.worker.preflight import ask_about, find_known_red, require_base

_OF_NEW_RUNS: Final = (
    "stages",
    "base",
    "review",
    "take",
    "plan_format",
    "split",
    "dry_run",
    "allow_red",
    "restart",
)


@click.command(name="run")
@click.argument("file", required=False, metavar="FILE")
@click.option(
    "--resume",
    "resumed",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[RUN]",
    help="Continue an unfinished run instead: RUN, or the run of FILE, or the only run.",
)
@click.option(
    "--restart",
    is_flag=True,
    help="Cancel the unfinished run of FILE, keep its landed work, and start anew.",
)
@click.option(
    "--slots", type=click.IntRange(1, bounds.SLOTS), metavar="N", help="Agents at a time."
)
@click.option(
    "--agent",
    default=USUAL_AGENT,
    show_default=True,
    metavar="NAME",
    help="For tasks that name none; with --resume from now on.",
)
@click.option(
    "--stages",
    metavar="LIST",
    help="For tasks that name none: of test,implement,review,judge those you want.",
)
@click.option(
    "--base", default="HEAD", show_default=True, metavar="REF", help="What the run starts from."
)
@click.option(
    "--into",
    metavar="BRANCH",
    help="Move this branch to the result when all landed; with --resume too.",
)
@take_option
@format_option
@click.option(
    "--review", is_flag=True, help="Nothing lands before you have accepted it with weft review."
)
@click.option(
    "--split", is_flag=True, help="Split tasks that are worth it into subtasks of FILE first."
)
@click.option(
    "--budget", metavar="DOLLARS", help="What the whole run may spend; with --resume too."
)
@click.option(
    "--dry-run", is_flag=True, help="Check everything, show what would happen, and do nothing."
)
@click.option(
    "--allow-red",
    is_flag=True,
    help="Start although tests fail on the base: only other tests count (pytest, unittest).",
)
@click.option(
    "--no-preflight",
    is_flag=True,
    help="Start without checking the agents' programs, and the tests on the base.",
)
@click.option(
    "--no-write", is_flag=True, help="Leave the marks in FILE alone, or its issues in bd."
)
@click.option("--open", "opens", is_flag=True, help="Serve the page, and open it in your browser.")
@click.option(
    "--state",
    metavar="OUT",
    help="Keep OUT up to date, as weft plan state writes it; with --resume too.",
)
@click.option("--no-tty", is_flag=True, help="Plain lines, also on a terminal.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    file: str | None,
    resumed: str | None,
    restart: bool,
    slots: int | None,
    agent: str,
    stages: str | None,
    base: str,
    into: str | None,
    review: bool,
    take: tuple[str, ...],
    plan_format: Source | None,
    split: bool,
    budget: str | None,
    dry_run: bool,
    allow_red: bool,
    no_preflight: bool,
    no_write: bool,
    opens: bool,
    state: str | None,
    no_tty: bool,
    as_json: bool,
) -> int:
    """Run a plan: one agent per task, checked work on one branch.

    FILE is a plan.md, or a plan in another format that docs/plans.md lists. The result is the
    branch weft/<run>, on which everything that landed has passed the checks of weft.toml; your
    checkout is not touched. Ctrl-C lets running agents end, twice ends them; `weft run --resume`
    goes on.

    Over a server, `weft run FILE --resume` keeps the marks of FILE in step; without FILE no file
    of this machine is written.
    """
    show_warnings()
    if allow_red and no_preflight:
        raise InputError("--allow-red needs the preflight, which --no-preflight skips.")
    if file is None and resumed is None:
        raise InputError("Name a plan to run, or --resume to go on with a run.")
    directory: Path = ctx.obj
    project = get_project(directory, os.environ)
    plan = None if file is None else directory / file
    state_file = None if state is None else directory / state
    if state_file is not None:
        require_state_file(state_file)
    ahead = None
    if resumed is not None:
        _refuse_for_old_runs(ctx)
        if plan is not None and not plan.is_file():
            raise InputError(f"There is no file {file}.")
    elif file is not None:
        options = RunOptions(
            agent=agent,
            stages=() if stages is None else tuple(stage.strip() for stage in stages.split(",")),
            slots=slots,
            base=base,
            into=into,
            review=review,
            take=take,
            format=plan_format,
            micro_usd=_budget(budget),
            preflight=not no_preflight,
        )
        old = _list_restarted(project, directory / file) if restart else []
        if old:
            with project.open_store() as store:
                options = restart_options(project, store, old[0], options)
        if split and project.server is not None:
            raise InputError("--split needs the repository: start the run on its machine.")
        split = split or project.config.plan.split == "auto"
        ahead = prepare_plan(project, directory, file, options, old, split=split)
        if state_file is not None:
            ahead = _with_state_file(project, ahead, directory / file, state_file)
        if dry_run:
            _show_preview(project, ahead, as_json)
            return 0
    with project.open_store() as store:
        if not no_preflight and ahead is not None:
            draft = _preflight(project, store, ahead.draft, allow_red=allow_red)
            ahead = replace(ahead, draft=draft)
        before = last_event(store)
        what = Follow(
            run=_resume(ctx, project, store, plan, state_file)
            if ahead is None
            else _submit(project, store, ahead, as_json, writes=not no_write),
            plan=plan if plan is not None and plan.is_file() else None,  # not a pipe
            format=plan_format,
            state_file=state_file,
            slots=slots or project.config.worker_slots,
            after=before,
            writes=not no_write,
            shows=choose_output(no_tty, as_json),
        )
        if opens:
            _open_page(project, store, slots)
        return see_through(project, store, what, slots)


def _with_state_file(project: Project, ahead: Ahead, plan: Path, state_file: Path) -> Ahead:
    """Let the workers of this machine keep the state file; a client of a server keeps its own."""
    if not plan.is_file():
        raise InputError("--state needs a plan that is a file; this plan came through a pipe.")
    if project.server is not None:
        return ahead
    projection = request_state_file(state_file, ahead.draft.options.format)
    return replace(ahead, draft=replace(ahead.draft, state_file=projection))


def _open_page(project: Project, store: Store, slots: int | None) -> None:
    # Late: most runs open no browser, and these imports bring an HTTP client.
    from weft.cli.page_link import get_server_url, open_page, serve_in_background

    url = get_server_url(project) if project.server else serve_in_background(project, slots)
    open_page(store, url)


def _preflight(project: Project, store: Store, draft: RunDraft, *, allow_red: bool) -> RunDraft:
    """Refuse a run whose agents cannot start or whose base fails its check.

    A server does that itself: its gate checks the base before an agent starts.
    """
    prepared = draft.prepared
    if prepared is None:
        if allow_red:
            raise InputError("--allow-red needs the repository: start the run on its machine.")
        return draft
    require_agents(project, store, prepared.agents)
    command = prepared.settings.gate.run
    about = "the workspace" if command is None else f"`{command_line(command)}`"
    line = f"weft: trying {printable(about)} on {prepared.run.base[:7]} before any agent starts"
    base, settings = ask_about(prepared), prepared.settings

    with CheckProgress(line) as watch:
        if allow_red:
            known_red = find_known_red(project, store, base, watch)
            settings = replace(settings, known_red=known_red)
        else:
            require_base(project, store, base, watch)
    if allow_red:
        click.echo(f"weft: {count(len(known_red), 'test')} may fail, as on the base", err=True)
    run = replace(prepared.run, untested=False)
    return replace(draft, prepared=replace(prepared, run=run, settings=settings))


def _refuse_for_old_runs(ctx: click.Context) -> None:
    given = [
        f"--{name.replace('_', '-')}"
        for name in _OF_NEW_RUNS
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise InputError(f"{listed(given)} can be given for a new run only, not with --resume.")


def _list_restarted(project: Project, plan: Path) -> list[Run]:
    if not project.has_store:
        return []
    with project.open_store() as store:
        return find_unfinished(store, plan)


def _cancel_restarted(project: Project, store: Store, ahead: Ahead) -> None:
    """Cancel the runs that the new run takes the place of, unless more has landed meanwhile."""
    for run in ahead.restarted:
        landing = ask(project, store, "cancel", CancelAsked(name=run.id)).landing
        done = {task.name for task in list_run(store, run.id) if task.state is State.DONE}
        if landing or not done.issubset(ahead.draft.options.done):
            raise InputError(
                f"Run {run.id} has landed more tasks just now and is cancelled; `weft run "
                f"{ahead.checked.name} --base weft/{run.id}` goes on from its work."
            )


def _change(ctx: click.Context, project: Project, store: Store, run: str) -> None:
    """Apply the options that a resumed run takes; refuse it if its agents cannot start."""
    given = ctx.params
    if ctx.get_parameter_source("agent") is ParameterSource.COMMANDLINE:
        moved = set_agent(project, run, given["agent"])
        click.echo(f"weft: {given['agent']} gets {count(moved, 'task')}", err=True)
    if given["budget"] is not None:
        set_budget(project, run, _budget(given["budget"]) or 0)
    if given["slots"] is not None:
        set_slots(store, run, given["slots"])
    if given["no_preflight"]:
        skip_base_check(store, run)
    else:
        require_agents_of_run(project, run)


def _resume(
    ctx: click.Context,
    project: Project,
    store: Store,
    plan: Path | None,
    state_file: Path | None,
) -> str:
    writes = not ctx.params["no_write"]
    there = get_resumable(store, ctx.params["resumed"] or None, plan)
    run = there.id
    if there.state != "ended":
        _change(ctx, project, store, run)
    if ctx.params["into"] is not None:
        choose_target(project, run, ctx.params["into"])
    for line in difference_lines(run, list_differences(project, run)):
        click.echo(f"weft: {printable(line)}", err=True)
    path = None
    if project.server is None and writes:
        path = plan if plan is not None else find_plan(there)
        if path is None:
            missing = printable(there.plan)
            click.echo(f"weft: {missing} is not here; its marks are left alone.", err=True)
    if path is not None:
        format = find_format(store, run)
        for name in release_marked(store, path, list_run(store, run), format=format):
            click.echo(f"weft: {name} is no longer held back", err=True)
    here = project.server is None
    resume_projections(
        project, store, run, path, writes=writes, state_file=state_file if here else None
    )
    return run


def _show_preview(project: Project, ahead: Ahead, as_json: bool) -> None:
    preview = preview_draft(project, ahead.draft)
    if as_json:
        print_json(as_dict(ahead, preview))
    else:
        _say_all(dry_run_lines(ahead, preview))


def _submit(project: Project, store: Store, ahead: Ahead, as_json: bool, *, writes: bool) -> str:
    _cancel_restarted(project, store, ahead)
    draft = ahead.draft if writes else replace(ahead.draft, plan_files=())
    if ahead.splits and draft.plan_files:
        # The marks of subtasks need a place in the file.
        plan_file.replace_content(Path(draft.upload.place), ahead.unsplit, draft.upload.source.data)
    submitted, preview = submit_draft(project, store, draft)
    if not as_json:
        _say_all(head_lines(ahead, submitted.run, preview))
    return submitted.run


def see_through(project: Project, store: Store, what: Follow, slots: int | None) -> int:
    """Follow a run to its end, or until it needs a person; print the summary."""
    try:
        followed = follow(project, store, what)
    except KeyboardInterrupt:
        click.echo(f"weft: interrupted; `weft run --resume {what.run}` goes on.", err=True)
        raise
    # The needs while this process worked: once it has left, its host is not mentioned any more.
    progress = replace(read_progress(store, what.run), needs=followed.track.progress.needs)
    at_once = slots or usual_slots(project.config)
    now = time.time()
    edges = followed.track.edges
    waits, parked = read_waits(store, what.run, progress.tasks, edges, progress.attempts, now=now)
    figures = measure_run(
        progress.tasks,
        progress.attempts,
        progress.gate,
        slots=at_once,
        now=now,
        waits=waits,
        parked=parked,
        checks_run=list_check_spans(store, what.run),
    )
    outside = list_outside(list_of_kind(store, what.run, CLAIMS_EXTENDED))
    if what.shows == "result":
        more = {**figures_as_dict(figures), "outside": outside}
        print_json({**summary(progress), **more})
    else:
        _say_all(summary_lines(progress, figures, outside))
    return 1 if progress.run.target_state is TargetState.REFUSED else followed.code


def _say_all(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def choose_output(no_tty: bool, as_json: bool) -> str:
    if as_json:
        return "result"
    return "lines" if no_tty or not is_possible() else "view"


def _budget(text: str | None) -> int | None:
    if text is None:
        return None
    amount = micro_dollars(text)
    if not amount:
        raise InputError(
            f"--budget must be dollars, above 0 and below {bounds.DOLLARS:,}, not {text!r}."
        )
    return amount
