"""`weft plan annotate`"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from weft import git, plan
from weft.cli.output import json_option, print_json
from weft.cli.plan import plan_text
from weft.errors import InputError
from weft.formats import count, plain
from weft.git import NotARepository
from weft.plan.annotator import Advice, PhaseAdvice, annotate
from weft.plan.plan_records import Source
from weft.process import ProgramMissing
from weft.runs import plan_check, plan_file


@click.command(name="annotate")
@click.argument("file", metavar="FILE")
@click.option("--write", is_flag=True, help="Put the annotations into FILE.")
@json_option
@click.pass_obj
def command(directory: Path, file: str, write: bool, as_json: bool) -> int:
    """Find tasks of a plan.md that could run in parallel.

    Looks at the files and tasks that the text speaks of, and at the files of the repository.
    Shows what it found; --write adds it to FILE as comments, and changes nothing else in it.
    A plan that has annotations is left alone.

    Example: weft plan annotate plan.md --write
    """
    source = plan_check.load(directory, file)
    reading = plan.read(source.name, source.data)
    if reading.plan.source is not Source.MARKDOWN:
        raise InputError(
            f"{file} is not a plan.md; `weft plan check {file}` lists the tasks that name no files."
        )
    if plan_text.print_errors(reading):
        return 2
    repository = _repository(directory)
    advice = annotate(file, source.data, repository)
    written = False
    if write and advice.data != source.data:
        advice = plan_file.update(directory / file, lambda data: annotate(file, data, repository))
        written = not advice.left_alone
    if as_json:
        print_json(_as_json(file, advice, written))
    else:
        for line in _lines(file, advice, written, advice.data != source.data):
            click.echo(plain(line))
    return 0


def _repository(directory: Path) -> list[str] | None:
    try:
        return git.list_tracked_files(directory)
    except (NotARepository, ProgramMissing):
        return None


def _lines(file: str, advice: Advice, written: bool, differs: bool) -> Iterator[str]:
    if advice.left_alone:
        yield f"{file} is annotated already; it was left alone."
        return
    for phase in advice.phases:
        yield from _phase(phase)
    if written:
        yield f"Wrote the annotations into {file}."
    elif differs:
        yield f"`weft plan annotate {file} --write` puts this into the file."
    else:
        yield "There is nothing to add."


def _phase(phase: PhaseAdvice) -> Iterator[str]:
    able = "can run in parallel" if phase.parallel else "stays in order"
    tasks = count(len(phase.tasks), "task")
    yield f"Phase {phase.label} ({tasks}) {able}: {phase.reason}"
    for task in phase.tasks:
        parts = [
            f"{key}: {', '.join(values)}"
            for key, values in (("files", task.files), ("depends", task.depends))
            if values
        ]
        yield f"  {task.id}  {'; '.join(parts) or 'files not known'}"


def _as_json(file: str, advice: Advice, written: bool) -> dict[str, object]:
    return {
        "file": file,
        "left_alone": advice.left_alone,
        "written": written,
        "phases": [
            {
                "label": phase.label,
                "parallel": phase.parallel,
                "reason": phase.reason,
                "tasks": [
                    {"id": task.id, "files": list(task.files), "depends": list(task.depends)}
                    for task in phase.tasks
                ],
            }
            for phase in advice.phases
        ],
    }
