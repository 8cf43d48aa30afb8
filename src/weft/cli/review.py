"""`weft review`"""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path

import click
import msgspec

from weft.candidate_records import Review
from weft.cli.output import json_option, print_json, say
from weft.cli.project_argument import pass_project
from weft.cli.review_text import read_comments, write_review
from weft.cli.task_arguments import optional_task_argument
from weft.errors import InputError, Refused
from weft.formats import clock, count
from weft.gate.review_view import ReviewView, list_in_review, read_review
from weft.git import common_directory
from weft.git.disk import scratch_directory
from weft.process import run_attached
from weft.project.project import Project
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
@json_option
@pass_project
def command(
    project: Project,
    name: str | None,
    accept: bool,
    sent: str | None,
    candidate: str | None,
    as_json: bool,
) -> None:
    """Show work that waits for your review; accept or send back.

    Without TASK: list the work in review. On a terminal, TASK opens in $VISUAL or $EDITOR: write
    comments on lines of their own below the line they concern, then accept, send back or leave it
    for later. Elsewhere the text is printed; edit it and give it to --send-back. A text without
    quoted lines is one comment on the whole.
    """
    if accept and sent is not None:
        raise InputError("Give --accept or --send-back, not both.")
    if name is None:
        if accept or sent is not None:
            raise InputError("Name the task to decide on; `weft review` lists those in review.")
        _list(project, as_json)
        return
    view = read_review(project, name)
    _refuse_other(view, candidate)
    if accept:
        _print(_accept(project, view), view, as_json)
    elif sent is not None:
        _print(_send_back(project, view, _read(sent)), view, as_json)
    elif as_json:
        print_json(msgspec.to_builtins(view))
    elif sys.stdin.isatty() and sys.stdout.isatty():
        _ask(project, view)
    else:
        click.echo(write_review(view), nl=False)


def _list(project: Project, as_json: bool) -> None:
    items = list_in_review(project)
    if as_json:
        print_json([msgspec.to_builtins(item) for item in items])
        return
    for item in items:
        say(f"{item.name}, round {item.round}, since {clock(item.since)}: {item.title}")
        say(f"    weft review {item.name}")
    if not items:
        say("No work waits for your review.")


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
    if as_json:
        print_json(msgspec.to_builtins(review))
    elif review.state == "accepted":
        say(f"Candidate {review.entry} of {view.item.name} is accepted and queues to land.")
    else:
        say(f"{view.item.name} is sent back: its agent gets round {review.round} of your comments.")


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
