"""The command line: parse, dispatch, print.

Exit codes: 0 all is well, 1 the work failed, 2 bad input or set-up, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Final

import click

from weft import __version__
from weft.cli.command_group import CommandGroup, CommandTable
from weft.cli.output import discard_output, escape_unencodable_output, printable
from weft.errors import InputError, LimitsDiffer, NotFound, StoreError, WeftError

COMMANDS: Final[CommandTable] = {
    "agents": ("agents", "List agents and members of the swarm; test or resume an agent."),
    "answer": ("verbs:answer", "Answer a task that asks you: by a text, by yes or by no."),
    "cancel": ("verbs:cancel", "Cancel tasks, or runs with all their unfinished tasks."),
    "clean": ("clean", "Free workspaces, branches and records that no task needs."),
    "demo": ("demo", "Watch weft at work on a small project, without a model or a key."),
    "diff": ("task_output:diff", "Show the changes of a task, landed or not."),
    "do": ("do", "Have one agent do one task now, in its own workspace."),
    "doctor": ("doctor", "Check git, the store, the limits and the agents."),
    "drain": ("verbs:drain", "Start no more tasks on this store until --undo."),
    "help": ("help", "Show the help of a command, such as `weft help plan check`."),
    "init": ("init", "Write weft.toml and .weft/agents/ for this repository."),
    "land": ("land", "Move your branch to the tested work of a run."),
    "limits": ("limits", "Show every limit and host with its use; set a limit."),
    "logs": ("task_output:logs", "Show the output of a task's agent."),
    "loop": ("loop", "Let a dispatcher hand out work until nothing is left."),
    "mcp": ("mcp", "Serve weft's tools over standard input and output (MCP)."),
    "pause": ("verbs:pause", "Keep a task, or all of a run, from starting."),
    "open": ("page_link", "Print a link to the page, or the workspace of a task."),
    "plan": ("plan", "Check, draw and annotate plans."),
    "ps": ("ps", "Show what needs you, tasks at work, runs and hosts."),
    "publish": ("land:publishing", "Push the branch of a run; open or update its pull request."),
    "recordings": ("replay", "Save attempts as files; play a run again from them."),
    "report": ("report", "Report on a run, or on the newest one."),
    "resume": ("verbs:resume", "Let a paused task go on, or a paused run and its gate."),
    "retry": ("verbs:retry", "Try tasks again that have ended or need you."),
    "review": ("review", "Show work that waits for your review; accept or send back."),
    "run": ("run", "Run a plan: one agent per task, checked work on one branch."),
    "runs": ("run_list", "List the runs and the commands that check them; update a run."),
    "send": ("verbs:send", "Send a message to a task's agent, to a member or to a lead."),
    "serve": ("serve", "Serve the page, the API and the tools, and run tasks."),
    "skip": ("verbs:skip", "Leave out tasks; the tasks that need them go on."),
    "token": ("token", "Make, list and revoke the tokens of a server."),
    "verify": ("land:verify", "Prove that everything a run landed was checked."),
    "watch": ("watch", "Watch runs, here or anywhere on the same store."),
    "why": ("why", "Show where a task is, since when, and why it waits."),
    "worker": ("worker", "Run tasks from the store until interrupted."),
}

SECTIONS: Final = {
    "Start": ("init", "doctor", "demo", "agents", "help"),
    "Work": ("plan", "run", "do", "loop", "land", "publish", "worker", "recordings"),
    "Watch": ("ps", "watch", "why", "logs", "diff", "open", "runs", "report", "verify"),
    "Steer": (
        *("review", "answer", "retry", "skip", "cancel", "pause", "resume", "drain", "send"),
        *("limits", "clean"),
    ),
    "Serve": ("serve", "token", "mcp"),
}
"""The headings of `weft --help`, and the commands below each heading in order."""

RENAMED: Final = {
    "approve": "answer TASK --yes",
    "choose": "review TASK --choose N",
    "compare": "review TASK --compare",
    "completion": "help completion",
    "cost": "report --cost",
    "page": "open",
    "queue": "ps --queue",
    "record": "recordings save",
    "reject": "answer TASK --no REASON",
    "replay": "recordings play",
    "schema": "help schema",
    "tasks": "ps --tasks",
}
"""Former commands, and the words to type instead."""

_GC_THRESHOLD: Final = 50_000
"""Allocations between garbage collections. Python's 700 collects 80 times during the imports."""


@click.group(
    cls=CommandGroup,
    table=COMMANDS,
    sections=SECTIONS,
    renamed=RENAMED,
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
    help="Work on the project of this server instead. Default: WEFT_SERVER.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    help="File with the server's token. Default: WEFT_TOKEN, or WEFT_TOKEN_FILE.",
)
@click.pass_context
def weft(ctx: click.Context, directory: Path, server: str | None, token_file: str | None) -> None:
    """Run many coding agents on one git repository, and weave their work into one branch."""
    ctx.obj = directory
    # Commands read these settings, like the store, from the environment.
    if server is not None:
        os.environ["WEFT_SERVER"] = server
    if token_file is not None:
        os.environ["WEFT_TOKEN_FILE"] = token_file
        os.environ.pop("WEFT_TOKEN", None)


def main() -> None:
    """Run the command line; print an error as one sentence, and exit with its code."""
    escape_unencodable_output()
    # A relative part would find programs in an agent's workspace, and weft would run them.
    parts = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(part for part in parts if os.path.isabs(part))
    gc.set_threshold(_GC_THRESHOLD)
    try:
        status = _run()
    finally:
        # The garbage collection at exit would take a tenth of the time of `weft ps`.
        gc.freeze()
    sys.exit(status)


def _run() -> int:
    """Run the command, print its error, and return the exit code."""
    try:
        status = weft.main(prog_name="weft", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.ClickException as error:
        click.echo(
            f"weft: {' '.join(error.format_message().split())}{_usage_hint(error)}", err=True
        )
        return 2
    except WeftError as error:
        text = "\n".join(map(printable, str(error).splitlines()))
        click.echo(f"weft: {text}", err=True)
        return exit_code(error)
    except ModuleNotFoundError as error:
        from weft.cli.missing_extra import explain_missing_extra  # late: rarely needed

        explanation = explain_missing_extra(error)
        if explanation is None:
            raise
        click.echo(f"weft: {explanation}", err=True)
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        discard_output()
        return 1
    return status if isinstance(status, int) else 0


def _usage_hint(error: click.ClickException) -> str:
    if isinstance(error, click.MissingParameter) and error.ctx is not None:
        return f" `{error.ctx.command_path} --help` shows how it is used."
    return ""


def exit_code(error: WeftError) -> int:
    return 2 if isinstance(error, InputError | StoreError | LimitsDiffer | NotFound) else 1
