"""Arguments that name tasks and runs, with their shell completion."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from weft.cli.output import printable
from weft.errors import WeftError
from weft.project.project import get_project
from weft.runs.task_names import explain_choice, list_completions, list_run_completions
from weft.store import Store

F = TypeVar("F", bound=Callable[..., Any])
Completions = list[tuple[str, str]]  # words with their help


def task_argument(command: F) -> F:
    return click.argument("name", metavar="TASK", shell_complete=_completer(list_completions))(
        command
    )


def optional_task_argument(command: F) -> F:
    complete = _completer(list_completions)
    return click.argument("name", required=False, metavar="[TASK]", shell_complete=complete)(
        command
    )


def task_or_run_argument(command: F) -> F:
    complete = _completer(_list_all_completions)
    return click.argument("name", metavar="TASK|RUN", shell_complete=complete)(command)


def _list_all_completions(store: Store, beginning: str) -> Completions:
    return [*list_run_completions(store, beginning), *list_completions(store, beginning)]


def tasks_argument(command: F) -> F:
    complete = _completer(list_completions)
    return click.argument("names", nargs=-1, metavar="[TASK]...", shell_complete=complete)(command)


def tasks_or_runs_argument(command: F) -> F:
    complete = _completer(_list_all_completions)
    return click.argument("names", nargs=-1, metavar="[TASK|RUN]...", shell_complete=complete)(
        command
    )


def all_option(command: F) -> F:
    return click.option(
        "--all",
        "every",
        is_flag=False,
        flag_value="",
        metavar="[RUN]",
        help="All such tasks of RUN, or of all runs.",
    )(command)


def run_argument(command: F) -> F:
    return click.argument("run", required=False, shell_complete=_completer(list_run_completions))(
        command
    )


def print_chosen_run(store: Store, text: str, task: int) -> None:
    """Print to stderr which run was chosen when several runs have a task of this name."""
    if text != str(task) and (choice := explain_choice(store, text, task)):
        click.echo(f"weft: {printable(choice)}", err=True)


def _completer(
    list_words: Callable[[Store, str], Completions],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a click completion callback; it returns no words where the store fails."""

    def complete(
        ctx: click.Context, _parameter: click.Parameter, beginning: str
    ) -> list[CompletionItem]:
        given = ctx.find_root().params
        options = {"WEFT_SERVER": given.get("server"), "WEFT_TOKEN_FILE": given.get("token_file")}
        environment = {**os.environ, **{name: value for name, value in options.items() if value}}
        try:
            project = get_project(Path(given.get("directory") or "."), environment)
            if not project.has_store:
                return []
            with project.open_store() as store:
                words = list_words(store, beginning)
        except (WeftError, OSError):
            return []
        return [CompletionItem(word, help=text) for word, text in words]

    return complete
