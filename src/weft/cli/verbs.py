"""Commands that only forward to an operation: `weft cancel`, `weft drain`, `weft retry` …

The fields of an operation's request are the arguments and options of its command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import click

from weft.cli.command_arguments import COMPLETE_BOTH, COMPLETE_TASKS, all_option, pass_project
from weft.cli.output import json_option, print_json, printable, say, show
from weft.errors import InputError, WeftError
from weft.operations import steering
from weft.operations.identity import LOCAL
from weft.operations.inbox import write
from weft.operations.registry import OPERATIONS, ask
from weft.operations.steering import ControlResult
from weft.project.project import Project
from weft.runs import task_list
from weft.runs.task_names import get_named
from weft.store import Store

_SUBJECTS: Final = {"task": ("TASK", COMPLETE_TASKS), "name": ("TASK|RUN", COMPLETE_BOTH)}
"""Fields of requests that name a task or run: their word in the help, and their completion."""


class TaskList(Protocol):
    def __call__(self, store: Store, run: str | None, *, now: float) -> list[str]: ...


def forward(operation: str, help: str, list_all: TaskList | None = None) -> click.Command:
    """Make the command of an operation.

    With `list_all` it takes several names, or --all for the names that `list_all` returns.
    """
    takes = OPERATIONS[operation].takes
    fields = OPERATIONS[operation].schema()
    [subject] = fields["required"] or ["name"]

    @pass_project
    def call(
        project: Project,
        /,
        as_json: bool,
        names: Sequence[str] = (),
        every: str | None = None,
        **given: Any,
    ) -> int:
        options = {name: value for name, value in given.items() if value is not None}
        with project.open_store() as store:
            if list_all is None:
                done = ask(project, store, operation, takes(**options))
                show(done, [done.text], as_json=as_json)
                return 0
            return _apply(
                lambda name: ask(project, store, operation, takes(**{subject: name, **options})),
                _choose(store, names, every, list_all),
                is_list=len(names) != 1,
                as_json=as_json,
            )

    parameters = list(_list_parameters(fields, many=list_all is not None))
    command = click.Command(operation, callback=call, params=parameters, help=help)
    return json_option(all_option(command) if list_all else command)


def _list_parameters(fields: Mapping[str, Any], *, many: bool) -> Iterator[click.Parameter]:
    """Yield an argument for each required field of a request, and an option for each other."""
    for name, field in fields["properties"].items():
        about = field.get("description")
        if name in fields["required"]:
            metavar, complete = _SUBJECTS[name]
            yield click.Argument(
                ["names" if many else name],
                nargs=-1 if many else 1,
                metavar=f"[{metavar}]..." if many else metavar,
                shell_complete=complete,
            )
        elif field["type"] == "boolean":
            yield click.Option([f"--{name}"], is_flag=True, help=about)
        elif field["type"] == "array":
            words = [f"--{name.removesuffix('s')}", name]
            yield click.Option(words, multiple=True, metavar=_metavar(name), help=about)
        else:
            yield click.Option([f"--{name}"], metavar=_metavar(name), help=about)


def _metavar(field: str) -> str:
    return {"agent": "NAME", "files": "PATH"}.get(field, "TEXT")


def _choose(
    store: Store, names: Sequence[str], every: str | None, list_all: TaskList
) -> Sequence[str]:
    """Return the names to work on; raise before the first change if a name is unknown."""
    if (every is None) == (not names):
        raise InputError("Name one or more tasks, or give --all, with a RUN or without.")
    if every is not None:
        return list_all(store, every or None, now=time.time())
    if len(names) > 1:
        for name in names:
            get_named(store, name)
    return names


def _apply(
    operation: Callable[[str], ControlResult],
    names: Sequence[str],
    *,
    is_list: bool,
    as_json: bool,
) -> int:
    """Apply an operation to each name; report a refusal of one and go on with the rest."""
    if not is_list:
        done = operation(names[0])
        show(done, [done.text], as_json=as_json)
        return 0
    results, refused = [], {}
    for name in names:
        try:
            results.append(operation(name))
        except WeftError as error:
            refused[name] = str(error)
    if as_json:
        print_json({"results": results, "refused": refused})
    else:
        for done in results:
            say(done.text)
        for text in refused.values():
            click.echo(f"weft: {printable(text)}", err=True)
        if not names:
            say("There is no such task.")
    return 1 if refused else 0


cancel = forward(
    "cancel",
    """Cancel tasks, or runs with all their unfinished tasks.

    Running agents are stopped, and their work is kept. A task that is landing can no longer be
    stopped. `weft retry` reopens a task; a cancelled run has ended. --all cancels every
    unfinished task, of RUN or of all runs.
    """,
    task_list.list_unfinished,
)

drain = forward(
    "drain",
    """Start no more tasks on this store until --undo.

    No worker on any host takes a task. Running tasks go on to their end, and tasks at the gate
    land.
    """,
)

pause = forward(
    "pause",
    """Keep a task, or all of a run, from starting.

    Running agents go on to their end, and tasks at the gate land. `weft resume` undoes this.
    """,
)

resume = forward("resume", "Let a paused task go on, or a paused run and its gate.")

retry = forward(
    "retry",
    """Try tasks again that have ended or need you.

    Earlier failures are forgotten: a task gets all its attempts again, and the tasks that need it
    wait for it. --all retries every task that needs you or has failed, of RUN or of all runs.

    Example: weft retry 2.3 --agent claude --note "Keep the old signature."
    """,
    task_list.list_stuck,
)

skip = forward(
    "skip",
    """Leave out tasks; the tasks that need them go on.

    A running agent is stopped. `weft retry` takes a task back in. --all skips every task that
    needs you or has failed, of RUN or of all runs.
    """,
    task_list.list_stuck,
)


@click.command(name="answer")
@click.argument("words", nargs=-1, metavar="[TASK]... [TEXT]", shell_complete=COMPLETE_TASKS)
@click.option("--yes", is_flag=True, help="Approve tasks that wait for a person: they are done.")
@click.option("--no", "reason", metavar="REASON", help="Reject a question, or work at the gate.")
@all_option
@json_option
@pass_project
def answer(
    project: Project,
    words: tuple[str, ...],
    yes: bool,
    reason: str | None,
    every: str | None,
    as_json: bool,
) -> int:
    """Answer a task that asks you: by a text, by yes or by no.

    TEXT is for the agent that asked, or the number of an option: 1 is the first. The agent goes on
    in the same session, with its work so far. --yes approves: the tasks that need these go on;
    --all approves every task that asks you, of RUN or of all runs. --no sends work at the gate back
    to its agent, which gets REASON; a task that asks you then needs you.

    \b
    weft answer 1.2 "Use UTC"
    weft answer 2.1 2.2 --yes
    weft answer 2.3 --no "too slow"
    """
    with project.open_store() as store:
        if yes and reason is None:
            return _apply(
                lambda name: ask(project, store, "approve", steering.TaskAsked(task=name)),
                _choose(store, words, every, task_list.list_questions),
                is_list=len(words) != 1,
                as_json=as_json,
            )
        if not yes and every is None and len(words) == (2 if reason is None else 1):
            if reason is None:
                done = ask(
                    project, store, "answer", steering.AnswerGiven(task=words[0], text=words[1])
                )
            else:
                asked = steering.RejectAsked(task=words[0], text=reason)
                done = ask(project, store, "reject", asked)
            show(done, [done.text], as_json=as_json)
            return 0
    raise InputError(
        "Give a TASK and a TEXT, a TASK and --no REASON, or tasks (or --all) and --yes."
    )


@click.command(name="send")
@click.argument("to", metavar="TASK|AGENT")
@click.argument("text")
@json_option
@pass_project
def send(project: Project, to: str, text: str, as_json: bool) -> None:
    """Send a message to a task's agent, to a member or to a lead.

    The agent of a running task gets it when it polls for messages, otherwise its next attempt
    does. A lead is an agent file with `stage: lead`: one that has nothing to do is started.
    """
    delivery = write(project, LOCAL, to, text, now=time.time())
    show(delivery, [str(delivery)], as_json=as_json)
