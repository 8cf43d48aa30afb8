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
    "agents": ("weft.cli.agents", "List agents and members of the swarm; test or resume an agent."),
    "answer": ("weft.cli.verbs:answer", "Answer the question of a task's agent."),
    "approve": ("weft.cli.verbs:approve", "Approve tasks that wait for a person."),
    "cancel": ("weft.cli.verbs:cancel", "Cancel tasks, or runs with all their unfinished tasks."),
    "choose": ("weft.cli.choose", "Let the candidate of an entrant land for its team."),
    "clean": ("weft.cli.clean", "Free workspaces, branches and records that no task needs."),
    "compare": ("weft.cli.compare", "Compare the candidates of a task's team."),
    "completion": ("weft.cli.completion", "Print the script that completes commands in a shell."),
    "cost": ("weft.cli.cost", "Show the cost of runs, tasks and agents."),
    "demo": ("weft.cli.demo", "Watch weft at work on a small project, without a model or a key."),
    "diff": ("weft.cli.diff", "Show the changes of a task, landed or not."),
    "do": ("weft.cli.do", "Have one agent do one task now, in its own workspace."),
    "doctor": ("weft.cli.doctor", "Check git, the store, the limits and the agents."),
    "drain": ("weft.cli.verbs:drain", "Start no more tasks on this store until --undo."),
    "help": ("weft.cli.help", "Show the help of a command, such as `weft help plan check`."),
    "init": ("weft.cli.init", "Write weft.toml and .weft/agents/ for this repository."),
    "land": ("weft.cli.land", "Move your branch to the tested work of a run."),
    "limits": ("weft.cli.limits", "Show every limit and host with its use; set a limit."),
    "logs": ("weft.cli.logs", "Show the output of a task's agent."),
    "loop": ("weft.cli.loop", "Let a dispatcher hand out work until nothing is left."),
    "mcp": ("weft.cli.mcp", "Serve weft's tools over standard input and output (MCP)."),
    "pause": ("weft.cli.verbs:pause", "Keep a task, or all of a run, from starting."),
    "page": ("weft.cli.page", "Print a link to the page of the server."),
    "open": ("weft.cli.open", "Print the workspace of a task, or open it in a program."),
    "plan": ("weft.cli.plan", "Check, draw and annotate plans."),
    "ps": ("weft.cli.ps", "Show what needs you, tasks at work, runs and hosts."),
    "publish": ("weft.cli.publish", "Push the branch of a run; open or update its pull request."),
    "queue": ("weft.cli.queue", "Show the next tasks, why they wait, and the gate's queue."),
    "record": ("weft.cli.record", "Record the attempts of a task or run as files."),
    "reject": ("weft.cli.verbs:reject", "Reject a question, or the work of a task at the gate."),
    "replay": ("weft.cli.replay", "Run a run again, with recordings instead of agents."),
    "report": ("weft.cli.report", "Report on a run, or on the newest one."),
    "resume": ("weft.cli.verbs:resume", "Let a paused task go on, or a paused run and its gate."),
    "retry": ("weft.cli.verbs:retry", "Try tasks again that have ended or need you."),
    "review": ("weft.cli.review", "Show work that waits for your review; accept or send back."),
    "run": ("weft.cli.run", "Run a plan: one agent per task, checked work on one branch."),
    "runs": ("weft.cli.run_list", "List the runs and the commands that check them; update a run."),
    "schema": ("weft.cli.schema", "Print the JSON Schema of weft.toml, agent files or prd.json."),
    "send": ("weft.cli.send", "Send a message to a task's agent, to a member or to a lead."),
    "serve": ("weft.cli.serve", "Serve the page, the API and the tools, and run tasks."),
    "skip": ("weft.cli.verbs:skip", "Leave out tasks; the tasks that need them go on."),
    "tasks": ("weft.cli.tasks", "List the tasks of a run, or of all unfinished runs."),
    "token": ("weft.cli.token", "Make, list and revoke the tokens of a server."),
    "verify": ("weft.cli.verify", "Prove that everything a run landed was checked."),
    "watch": ("weft.cli.watch", "Watch runs, here or anywhere on the same store."),
    "why": ("weft.cli.why", "Show where a task is, since when, and why it waits."),
    "worker": ("weft.cli.worker", "Run tasks from the store until interrupted."),
}

SECTIONS: Final = {
    "Start": ("init", "doctor", "demo", "agents", "schema", "help", "completion"),
    "Work": ("plan", "run", "land", "publish", "do", "loop", "worker", "record", "replay"),
    "Watch": (
        *("ps", "watch", "why", "logs", "diff", "compare", "open", "queue", "runs", "tasks"),
        *("report", "cost", "verify"),
    ),
    "Steer": (
        *("review", "choose", "answer", "approve", "reject", "retry", "skip", "cancel", "pause"),
        *("resume", "drain", "send", "limits", "clean"),
    ),
    "Serve": ("serve", "page", "token", "mcp"),
}
"""The headings of `weft --help`, and the commands below each heading in order."""

_GC_THRESHOLD: Final = 50_000
"""Allocations between garbage collections. Python's 700 collects 80 times during the imports."""


@click.group(
    cls=CommandGroup,
    table=COMMANDS,
    sections=SECTIONS,
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
