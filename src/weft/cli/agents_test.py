"""`weft agents test`"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import click
from msgspec.structs import asdict

from weft.cli.command_arguments import pass_project
from weft.cli.output import json_option, show
from weft.cli.task_follower import TaskFollower
from weft.cli.worker_loops import serve
from weft.formats import dollars, duration
from weft.maintenance.agent_trial import Diagnosis, Trial, diagnose, hand_in, throw_away, try_agent
from weft.model import Event, Grant
from weft.project.agent_list import get_agent, resume
from weft.project.agent_programs import explain_all_unreachable, explain_missing, find_program
from weft.project.project import Project
from weft.store.admission import admit_task
from weft.store.tasks import list_attempts
from weft.worker.engine import Interrupted


@click.command(name="test")
@click.argument("name")
@json_option
@pass_project
def command(project: Project, name: str, as_json: bool) -> int:
    """Have an agent do one trivial task, and explain a failure.

    The agent writes one small file in a temporary repository; this costs one short answer of its
    model. If it works, a stopped agent is resumed.
    """
    if project.server is not None:
        tried = try_agent(project, name)
        _print(name, tried.diagnosis, resumed=tried.resumed, as_json=as_json)
        return 0 if tried.diagnosis.problem is None else 1
    agent = get_agent(project, name)
    program = find_program(agent, project.root, project.environment)
    unreachable = explain_all_unreachable(
        [(agent, program)], project.config, project.environment, project.root
    )
    if program.path is None:
        searched = f" The PATH is {program.directories}." if program.directories else ""
        text = explain_missing(agent, program) + searched
        diagnosis = Diagnosis(problem="not_installed", text=text)
    elif reasons := [reason for _, reason in unreachable]:
        diagnosis = Diagnosis(problem="unreachable", text=f"It cannot start: {reasons[0]}")
    else:
        with throw_away(project, agent) as trial:
            diagnosis = _try(trial, quiet=as_json)
    resumed = diagnosis.problem is None and resume(project, name)
    _print(name, diagnosis, resumed=resumed, as_json=as_json)
    return 0 if diagnosis.problem is None else 1


def _try(trial: Trial, *, quiet: bool) -> Diagnosis:
    """Run the trial to its end, however that comes."""

    class OneAttempt(TaskFollower):
        def look(self) -> bool:
            self.read()
            return any(attempt.ended for attempt in list_attempts(store, task))

        def tell(self, event: Event) -> None:
            if event.kind != "attempt_finished":  # the diagnosis explains it afterwards
                super().tell(event)

    with trial.project.open_store() as store:
        task = hand_in(trial, store, now=time.time())

        def take(worker: str) -> Sequence[Grant]:
            once = not list_attempts(store, task)
            return admit_task(store, worker, task, now=time.time()) if once else ()

        try:
            serve(
                trial.project,
                store,
                lambda _: OneAttempt(store, task, after=0, quiet=quiet),
                take=take,
            )
        except Interrupted:
            raise KeyboardInterrupt from None
        return diagnose(trial, store, task)


def _print(name: str, diagnosis: Diagnosis, *, resumed: bool, as_json: bool) -> None:
    fields = asdict(diagnosis)
    words, seconds = fields.pop("output") or None, round(fields.pop("seconds"), 3)
    fields |= {"agent": name, "works": diagnosis.problem is None, "resumed": resumed}
    lines = _lines(name, diagnosis, resumed=resumed)
    show({**fields, "said": words, "seconds": seconds}, lines, as_json=as_json)


def _lines(name: str, diagnosis: Diagnosis, *, resumed: bool) -> Iterator[str]:
    if diagnosis.problem is None:
        cost = f", {dollars(diagnosis.micro_usd)}" if diagnosis.micro_usd else ""
        tokens = f", {diagnosis.tokens:,} tokens" if diagnosis.tokens else ""
        yield f"{name}: {diagnosis.text} It took {duration(diagnosis.seconds)}{tokens}{cost}."
    else:
        yield f"{name}: {diagnosis.text}"
        if diagnosis.output:
            yield f"It said: {' '.join(diagnosis.output.split())}"
    if resumed:
        yield "It was stopped, and can be started again now."
