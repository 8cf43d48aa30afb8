"""The command line: parse, dispatch, print. One file per command.

Exit codes: 0 all is well, 1 the work failed, 2 bad input or set-up, 130 interrupted.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from weft import __version__
from weft.cli.output import print_nowhere, print_what_can_be, printable
from weft.errors import InputError, LimitsDiffer, NotFound, StoreError, WeftError

COMMANDS: Final = {
    "agents": "weft.cli.agents",
    "approve": "weft.cli.approve",
    "cancel": "weft.cli.cancel",
    "clean": "weft.cli.clean",
    "cost": "weft.cli.cost",
    "diff": "weft.cli.diff",
    "do": "weft.cli.do",
    "doctor": "weft.cli.doctor",
    "drain": "weft.cli.drain",
    "init": "weft.cli.init",
    "limits": "weft.cli.limits",
    "logs": "weft.cli.logs",
    "mcp": "weft.cli.mcp",
    "pause": "weft.cli.pause",
    "plan": "weft.cli.plan",
    "ps": "weft.cli.ps",
    "queue": "weft.cli.queue",
    "reject": "weft.cli.reject",
    "resume": "weft.cli.resume",
    "retry": "weft.cli.retry",
    "report": "weft.cli.report",
    "run": "weft.cli.run",
    "runs": "weft.cli.runs",
    "send": "weft.cli.send",
    "serve": "weft.cli.serve",
    "skip": "weft.cli.skip",
    "token": "weft.cli.token",
    "verify": "weft.cli.verify",
    "watch": "weft.cli.watch",
    "why": "weft.cli.why",
    "worker": "weft.cli.worker",
}


_MADE: Final = 50_000
"""Objects made before cycles are looked for: with the usual 700 importing alone looks 80 times."""


class LateCommands(click.Group):
    """Imports a command when it is asked for, so that each starts fast."""

    def __init__(self, *args: Any, modules: Mapping[str, str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._modules = modules  # by the name of the command; each exports it as `command`

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return None
        command: click.Command = importlib.import_module(self._modules[cmd_name]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._modules:
            from difflib import get_close_matches

            close = get_close_matches(args[0], self._modules, n=1)
            hint = f" Did you mean {close[0]}?" if close else f" Try `{ctx.command_path} --help`."
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx=None)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LateCommands,
    modules=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="weft", message="%(prog)s %(version)s")
@click.option(
    "-C",
    "directory",
    default=".",
    metavar="DIRECTORY",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Work in this directory instead of the current one.",
)
@click.option(
    "--server",
    metavar="URL",
    help="Work on what this server has, instead of the repository here. Default: WEFT_SERVER.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    help="The server's token is in there. Default: WEFT_TOKEN, or WEFT_TOKEN_FILE.",
)
@click.pass_context
def weft(ctx: click.Context, directory: Path, server: str | None, token_file: str | None) -> None:
    """Run many coding agents on one git repository, and weave their work into one branch."""
    ctx.obj = directory
    # Commands take these from their environment, as they do the store.
    if server is not None:
        os.environ["WEFT_SERVER"] = server
    if token_file is not None:
        os.environ["WEFT_TOKEN_FILE"] = token_file
        os.environ.pop("WEFT_TOKEN", None)


def main() -> None:
    """Run the command line, and turn errors into one sentence and an exit code."""
    print_what_can_be()
    gc.set_threshold(_MADE)
    try:
        status = _run()
    finally:
        # What is left ends with the process. To look for cycles in it takes a tenth of `weft ps`.
        gc.freeze()
    sys.exit(status)


def _run() -> int:
    """The exit code, after what went wrong was told."""
    try:
        status = weft.main(prog_name="weft", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.ClickException as error:
        click.echo(f"weft: {' '.join(error.format_message().split())}{_cure(error)}", err=True)
        return 2
    except WeftError as error:
        said = "\n".join(map(printable, str(error).splitlines()))
        click.echo(f"weft: {said}", err=True)
        return exit_code(error)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        print_nowhere()
        return 1
    return status if isinstance(status, int) else 0


def _cure(error: click.ClickException) -> str:
    """Of what is merely missing, click does not say how it is given."""
    if isinstance(error, click.MissingParameter) and error.ctx is not None:
        return f" `{error.ctx.command_path} --help` shows how it is used."
    return ""


def exit_code(error: WeftError) -> int:
    return 2 if isinstance(error, InputError | StoreError | LimitsDiffer | NotFound) else 1
