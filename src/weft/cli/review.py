"""`weft review`"""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path

import click

from weft.candidate_records import Review
from weft.cli.command_arguments import optional_task_argument, pass_project
from weft.cli.output import json_option, print_json, say, show, table_width
from weft.cli.review_text import read_comments, write_review
from weft.cli.task_lines import list_comparison
from weft.errors import InputError, Refused
from weft.formats import clock, count
from weft.gate.review_view import ReviewView, list_in_review, read_review
from weft.git import common_directory
from weft.git.disk import scratch_directory
from weft.operations.registry import ask
from weft.operations.steering import Choice
from weft.process import run_attached
from weft.project.project import Project
from weft.runs.task_diff import compare_team
from weft.store.reviews import accept_review, replace_comments, send_back_review

ANSWERS = {"a": "accept", "s": "send back", "l": "later"}


@click.command(name="review")
@optional_task_argument
@click.option("--accept", is_flag=True, help="Let the candidate land.")
@click.option(
    "--send-back",
    "sent",
    metavar="FILE",
    help="Send the comments in FILE (- for standard input) to the agent.",
)
@click.option(
    "--candidate", metavar="ID", help="The candidate you decide on; refused if another is shown."
)
@click.option("--compare", is_flag=True, help="Compare the candidates of the task's team.")
@click.option(
    "--choose",
    "entrant",
    type=click.IntRange(min=1),
    metavar="N",
    help="Let the candidate of entrant N land for its team.",
)
@json_option
@pass_project
def command(
    project: Project,
    name: str | None,
    accept: bool,
    sent: str | None,
    candidate: str | None,
    compare: bool,
    entrant: int | None,
    as_json: bool,
) -> None:
    """Show work that waits for your review; accept or send back.

    Without TASK: list the work in review. On a terminal, TASK opens in $VISUAL or $EDITOR: write
    comments on lines of their own below the line they concern, then accept, send back or leave it
    for later. Elsewhere the text is printed; edit it and give it to --send-back. A text without
    quoted lines is one comment on the whole.

    The task of a team: --compare shows checks, cost and diffs of its candidates side by side;
    --choose takes one, stops the other entrants and keeps their candidates. The chosen candidate
    has to pass the checks of the gate as any other; if it fails, its agent makes it again.
    """
    decisions = [accept, sent is not None, compare, entrant is not None]
    if sum(decisions) > 1:
        raise InputError("Give one of --accept, --send-back, --compare and --choose.")
    if name is None:
        if any(decisions):
            raise InputError("Name the task to decide on; `weft review` lists those in review.")
        _list(project, as_json)
        return
    if compare:
        comparison = compare_team(project, name)
        show(comparison, list_comparison(comparison, table_width()), as_json=as_json)
        return
    if entrant is not None:
        with project.open_store() as store:
            done = ask(project, store, "choose", Choice(task=name, entrant=entrant))
        show(done, [done.text], as_json=as_json)
        return
    view = read_review(project, name)
    _refuse_other(view, candidate)
    if accept:
        _print(_accept(project, view), view, as_json)
    elif sent is not None:
        _print(_send_back(project, view, _read(sent)), view, as_json)
    elif as_json:
        print_json(view)
    elif sys.stdin.isatty() and sys.stdout.isatty():
        _ask(project, view)
    else:
        click.echo(write_review(view), nl=False)


def _list(project: Project, as_json: bool) -> None:
    items = list_in_review(project)
    lines = ["No work waits for your review."] if not items else []
    for item in items:
        lines.append(f"{item.name}, round {item.round}, since {clock(item.since)}: {item.title}")
        lines.append(f"    weft review {item.name}")
    show(items, lines, as_json=as_json)


def _refuse_other(view: ReviewView, candidate: str | None) -> None:
    if candidate not in (None, view.item.candidate):
        raise Refused(
            f"Candidate {candidate} is not in review: {view.item.name} shows candidate "
            f"{view.item.candidate} now. `weft review {view.item.name}` shows it."
        )


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"Cannot read {file}: {error.strerror}.") from error
    return data.decode("utf-8", "replace")


def _accept(project: Project, view: ReviewView) -> Review:
    with project.open_store() as store:
        return accept_review(store, view.item.candidate, now=time.time())


def _send_back(project: Project, view: ReviewView, text: str) -> Review:
    comments = read_comments(text, view)
    with project.open_store() as store:
        if comments:
            replace_comments(store, view.item.candidate, comments, now=time.time())
        return send_back_review(store, view.item.candidate, now=time.time())


def _print(review: Review, view: ReviewView, as_json: bool) -> None:
    if review.state == "accepted":
        text = f"Candidate {review.entry} of {view.item.name} is accepted and queues to land."
    else:
        text = (
            f"{view.item.name} is sent back: its agent gets round {review.round} of your comments."
        )
    show(review, [text], as_json=as_json)


def _ask(project: Project, view: ReviewView) -> None:
    """Let a person comment in an editor, or read in a pager, and decide."""
    text = write_review(view)
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if editor:
        text = _edit(project, editor, text)
    else:
        click.echo_via_pager(text)
    comments = read_comments(text, view)
    with project.open_store() as store:
        replace_comments(store, view.item.candidate, comments, now=time.time())
    if comments:
        say(f"{count(len(comments), 'comment')} kept with candidate {view.item.candidate}.")
    answer = click.prompt(
        "[a]ccept, [s]end back or [l]ater?",
        type=click.Choice(list(ANSWERS), case_sensitive=False),
        default="s" if comments else "l",
        show_choices=False,
    )
    if answer == "a":
        _print(_accept(project, view), view, as_json=False)
    elif answer == "s":
        if not comments:
            text = click.prompt("Your comment on the whole")
        _print(_send_back(project, view, text), view, as_json=False)
    else:
        say(f"Candidate {view.item.candidate} stays in review.")


def _edit(project: Project, editor: str, text: str) -> str:
    # In weft's own directory: an agent of the same user could rewrite a file in the shared /tmp.
    with scratch_directory(common_directory(project.root)) as directory:
        path = directory / "review.diff"
        path.write_text(text, encoding="utf-8")
        try:
            words = [*shlex.split(editor), str(path)]
            status = run_attached(words, directory=Path.cwd(), environment=os.environ)
        except (OSError, ValueError) as error:
            raise InputError(f"The editor {editor!r} cannot start: {error}.") from error
        if status:
            raise InputError(f"The editor {editor!r} ended with {status}; nothing was decided.")
        return path.read_text(encoding="utf-8", errors="replace")
