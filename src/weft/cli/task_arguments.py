"""Arguments that name tasks and runs, and how a shell completes them.

Whatever goes wrong while completing is silent: nobody asked for an answer yet.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from weft.errors import WeftError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from weft.store import Store

F = TypeVar("F", bound=Callable[..., Any])
Words = list[tuple[str, str]]


def task_argument(command: F) -> F:
    return click.argument("task", shell_complete=_complete_task)(command)


def either_argument(command: F) -> F:
    return click.argument("name", metavar="TASK|RUN", shell_complete=_complete_either)(command)


def run_argument(command: F) -> F:
    return click.argument("run", required=False, shell_complete=_complete_run)(command)


def say_which(store: Store, text: str, task: int) -> None:
    """Tell, beside the answer, which run's task it is about where others had one of that name."""
    from weft.runs.task_names import explain_choice

    if text != str(task) and (choice := explain_choice(store, text, task)):
        click.echo(f"weft: {choice}", err=True)


def _complete_task(
    ctx: click.Context, _parameter: click.Parameter, beginning: str
) -> list[CompletionItem]:
    from weft.runs.task_names import list_completions

    return _complete(ctx, lambda store: list_completions(store, beginning))


def _complete_run(
    ctx: click.Context, _parameter: click.Parameter, beginning: str
) -> list[CompletionItem]:
    from weft.runs.task_names import list_run_completions

    return _complete(ctx, lambda store: list_run_completions(store, beginning))


def _complete_either(
    ctx: click.Context, _parameter: click.Parameter, beginning: str
) -> list[CompletionItem]:
    from weft.runs.task_names import list_completions, list_run_completions

    return _complete(
        ctx,
        lambda store: [
            *list_run_completions(store, beginning),
            *list_completions(store, beginning),
        ],
    )


def _complete(ctx: click.Context, words: Callable[[Store], Words]) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from weft.project import project

    given = ctx.find_root().params
    asked = {"WEFT_SERVER": given.get("server"), "WEFT_TOKEN_FILE": given.get("token_file")}
    environment = {**os.environ, **{name: value for name, value in asked.items() if value}}
    try:
        found = project.find(Path(given.get("directory") or "."), environment)
        if not found.has_store:
            return []
        with found.open_store() as store:
            return [CompletionItem(word, help=text) for word, text in words(store)]
    except (WeftError, OSError):
        return []
