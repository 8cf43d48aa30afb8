"""`weft plan annotate`"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from weft import git
from weft.cli.output import json_option, show
from weft.cli.plan import plan_text
from weft.errors import InputError
from weft.formats import count, plain
from weft.git import NotARepository
from weft.plan import annotator, prd
from weft.plan.annotator import Advice, PhaseAdvice, Predicted, annotate
from weft.plan.plan_records import Plan, Source
from weft.process import ProgramMissing
from weft.runs import plan_check, plan_file
from weft.runs.file_prediction import open_predictor, predict_plan

_REFUSED: Final = {
    Source.BEADS: 'bd keeps the files of an issue: put {"files": […]} into its metadata there',
    Source.SPEC_KIT: "its tasks name files in their text and say [P], and weft checks both; "
    "`weft plan check` lists the tasks that name no file",
    Source.KIRO: "the format has no place for files, and its tasks run in order; "
    "`weft plan new` writes a plan.md for tasks that run in parallel",
    Source.OPENSPEC: "the format has no place for files, and its tasks run in order; "
    "`weft plan new` writes a plan.md for tasks that run in parallel",
    Source.SUPERPOWERS: "its tasks list their files under **Files:**; "
    "`weft plan check` names the tasks without such a list",
}


@click.command(name="annotate")
@click.argument("file", metavar="FILE")
@click.option("--write", is_flag=True, help="Put the annotations into FILE.")
@plan_text.format_option
@json_option
@click.pass_obj
def command(
    directory: Path, file: str, write: bool, plan_format: Source | None, as_json: bool
) -> int:
    """Find tasks of a plan that could run in parallel.

    Looks at the files and tasks that the text speaks of, at the order it states, at the files of
    the repository, and at predicted files. Shows the proposal; --write adds it to FILE, and
    changes nothing else in it: comments in a plan.md, `files` in a prd.json or tasks.json. A plan
    with annotations is left alone; the other formats have no place for files.

    Example: weft plan annotate plan.md --write
    """
    source = plan_check.load(directory, file, format=plan_format)
    reading = plan_check.read_source(source)
    if reading.plan.source in _REFUSED:
        raise InputError(
            f"{file} is a plan of {reading.plan.source}: {_REFUSED[reading.plan.source]}."
        )
    if plan_text.print_errors(reading):
        return 2
    repository = _repository(directory)
    predicted = _predict(directory, reading.plan)

    def propose(data: bytes) -> Advice:
        if reading.plan.source in prd.FORMATS:
            now = plan_check.read_source(replace(source, data=data)).plan
            return annotator.annotate_json(now, data, repository, predicted)
        return annotate(file, data, repository, predicted)

    advice = propose(source.data)
    written = False
    if write and advice.data != source.data:
        advice = plan_file.update(directory / file, propose)
        written = not advice.left_alone
    fields = {
        "file": file,
        "left_alone": advice.left_alone,
        "written": written,
        "phases": advice.phases,
    }
    lines = _lines(file, advice, written, advice.data != source.data)
    show(fields, map(plain, lines), as_json=as_json)
    return 0


def _repository(directory: Path) -> list[str] | None:
    try:
        return git.list_tracked_files(directory)
    except (NotARepository, ProgramMissing):
        return None


def _predict(directory: Path, whole: Plan) -> Predicted:
    """Return the files that tasks would claim in a run, as `weft plan predict` marks them."""
    with plan_check.setting(directory, os.environ) as around:
        if around.root is None or not around.config.plan.predict:
            return {}
        predictor = open_predictor(around.root, around.store, around.repo)
        if predictor is None:
            return {}
        planned, _ = predict_plan(predictor, whole, around.slots)
    return {task.id: task.claims for task in planned.tasks if task.predicted}


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
    able = "can run in parallel" if phase.parallel else "keep sequential"
    tasks = count(len(phase.tasks), "task")
    yield f"{f'Phase {phase.label} ({tasks})' if phase.label else tasks}: {able}. {phase.reason}"
    for task in phase.tasks:
        parts = [
            f"{key}: {', '.join(values)}"
            for key, values in (
                ("files", task.files),
                ("reads", task.reads),
                ("depends", task.depends),
            )
            if values
        ]
        how = " (predicted)" if task.predicted else ""
        yield f"  {task.id}  {'; '.join(parts) or 'files not known'}{how}"
