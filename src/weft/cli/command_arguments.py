"""The project, tasks, runs and labels that arguments of commands name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import click
from click.shell_completion import CompletionItem

from weft.cli.output import printable
from weft.errors import WeftError
from weft.host_labels import parse_labels
from weft.project.project import Project, get_project
from weft.runs.task_names import explain_choice, list_completions, list_run_completions
from weft.store import Store

P = ParamSpec("P")
T = TypeVar("T")


def pass_project(command: Callable[Concatenate[Project, P], T]) -> Callable[P, T]:
    """Pass the project of the directory that `weft -C` names, or the server's project."""

    @wraps(command)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        directory = click.get_current_context().obj
        return command(get_project(directory, os.environ), *arguments, **options)

    return call


def pass_store(command: Callable[Concatenate[Store, P], T]) -> Callable[P, T]:
    """Pass the open store of the project."""

    @wraps(command)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        directory = click.get_current_context().obj
        with get_project(directory, os.environ).open_store() as store:
            return command(store, *arguments, **options)

    return call


F = TypeVar("F", bound=Callable[..., Any])
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def task_argument(command: F) -> F:
    return click.argument("name", metavar="TASK", shell_complete=COMPLETE_TASKS)(command)


def optional_task_argument(command: F) -> F:
    return click.argument("name", required=False, metavar="[TASK]", shell_complete=COMPLETE_TASKS)(
        command
    )


class Duration(click.ParamType[float]):
    """`90s`, `15m`, `12h`, `30d`; a bare number is seconds. `examples` are named in its error."""

    name = "duration"

    def __init__(self, examples: str, *, least: int = 1) -> None:
        self._examples = examples
        self._least = least

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        match = re.fullmatch(r"([0-9]{1,9})([smhd]?)", str(value), re.ASCII)
        if match is None or int(match[1]) < self._least:
            self.fail(f"{value!r} is no duration; write {self._examples}.", param, ctx)
        return float(int(match[1]) * _UNITS[match[2] or "s"])


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
    return click.argument("run", required=False, shell_complete=COMPLETE_RUNS)(command)


def print_chosen_run(store: Store, text: str, task: int) -> None:
    """Print to stderr which run was chosen when several runs have a task of this name."""
    if text != str(task) and (choice := explain_choice(store, text, task)):
        click.echo(f"weft: {printable(choice)}", err=True)


def _completer(*lists: Callable[[Store, str], list[tuple[str, str]]]) -> Completer:
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
                words = [word for list_words in lists for word in list_words(store, beginning)]
        except (WeftError, OSError):
            return []
        return [CompletionItem(word, help=text) for word, text in words]

    return complete


COMPLETE_TASKS: Final = _completer(list_completions)
COMPLETE_RUNS: Final = _completer(list_run_completions)
COMPLETE_BOTH: Final = _completer(list_run_completions, list_completions)


def read_labels(
    _ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the labels of an option, each once."""
    try:
        return parse_labels(",".join(given)) if given else ()
    except ValueError as wrong:
        raise click.BadParameter(f"{','.join(given)!r} is not {wrong}.") from None
