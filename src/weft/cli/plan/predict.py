"""`weft plan predict`"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from msgspec import to_builtins

from weft.cli.output import json_option, print_json, wrap_words
from weft.cli.plan import plan_text
from weft.errors import InputError
from weft.formats import count, first_sentence, listed, plain
from weft.model import PredictedFile
from weft.plan import annotator, prd
from weft.plan.annotator import write_files
from weft.plan.plan_records import Source, list_claims
from weft.planning.score import AT, Score
from weft.runs import plan_check, plan_file
from weft.runs.file_prediction import (
    PlanPrediction,
    Predictor,
    count_declared,
    open_predictor,
    predict_plan,
    score_attempts,
)
from weft.runs.plan_check import PlanSource, Setting

_MOST_SHOWN: Final = 8  # files of a task
_FILE: Final = re.compile(r"\S+\.(?:md|json|jsonl)")


@click.command(name="predict")
@click.argument("plan", metavar="[PLAN|TEXT]", required=False)
@click.option("--score", "scored", is_flag=True, help="Measure predictions on past commits.")
@click.option(
    "--agent",
    is_flag=False,
    flag_value="",
    metavar="[NAME]",
    help="Ask the agent of `stage: plan` for files where the history predicts too little.",
)
@click.option("--write", is_flag=True, help="Put the files of tasks into PLAN.")
@plan_text.slots_option
@plan_text.take_option
@plan_text.format_option
@json_option
@click.pass_obj
def command(
    directory: Path,
    plan: str | None,
    scored: bool,
    agent: str | None,
    write: bool,
    slots: int | None,
    take: tuple[str, ...],
    plan_format: Source | None,
    as_json: bool,
) -> int | None:
    """Predict the files that tasks will change.

    PLAN is a file with tasks; other text is a task. The prediction reads the text and the history
    of the repository and needs no model. A file with * would be claimed; files that tasks "may
    touch" are changed by many commits and never claimed. With --agent, a planner names the files
    of tasks for which the history is too short; without a planner the text decides.

    Example: weft plan predict prd.json --agent --write
    """
    if plan is None and not scored:
        raise click.UsageError("Name a plan or a task, or ask for --score.")
    with plan_check.setting(directory, os.environ) as around:
        predictor = _open(around)
        answer: dict[str, Any] = {}
        lines: list[str] = []
        if plan is not None:
            source = None
            if _is_file(directory, plan):
                source = plan_check.load(directory, plan, take, plan_format)
            elif agent is not None or write:
                raise InputError("--agent and --write need a plan: weft plan predict plan.md.")
            titles, prediction = _predict(plan, source, predictor, slots or around.slots)
            if prediction is None:
                return 2
            if agent is not None and source is not None:
                prediction = _ask(directory, source, predictor, prediction, agent, quiet=as_json)
            if write and source is not None:
                _write(directory / plan, source, prediction)
            answer |= _as_json(titles, prediction)
            lines += _task_lines(titles, prediction, around)
        if scored:
            answer["score"] = _score_json(predictor)
            lines += [*([""] if lines else []), *_score_lines(predictor)]
    if as_json:
        print_json(answer)
    else:
        width = shutil.get_terminal_size((80, 24)).columns
        for line in lines:
            click.echo("\n".join(wrap_words(line, width)))
    return None


def _open(around: Setting) -> Predictor:
    if around.root is None:
        raise InputError(
            "A prediction reads the history of a repository: call it inside one, without --server."
        )
    predictor = open_predictor(around.root, around.store, around.repo)
    if predictor is None:
        raise InputError("The repository has no commit yet, so there is nothing to predict from.")
    return predictor


def _predict(
    plan: str, source: PlanSource | None, predictor: Predictor, slots: int
) -> tuple[Mapping[str, str], PlanPrediction | None]:
    """Predict a plan or a text; return the titles of the tasks, and None if the plan has errors."""
    if source is None:
        if not plan.strip():
            raise InputError("The text of the task is empty.")
        files = predictor.predict({"": plan})
        reason = predictor.explain_disuse()
        return {"": first_sentence(plan)}, PlanPrediction(
            tasks=files, used=not reason, note=_explain(predictor)
        )
    reading = plan_check.read_source(source)
    if plan_text.print_errors(reading):
        return {}, None
    _, prediction = predict_plan(predictor, reading.plan, slots)
    return {task.id: task.title for task in reading.plan.tasks}, prediction


def _ask(
    directory: Path,
    source: PlanSource,
    predictor: Predictor,
    prediction: PlanPrediction,
    agent: str,
    *,
    quiet: bool,
) -> PlanPrediction:
    """Let a planner name the files of the tasks that the history says too little about."""
    from weft.cli.plan.planner_questions import ask_for_files  # late: it needs a worker

    is_young = bool(predictor.explain_disuse())
    tasks = [
        task
        for task in plan_check.read_source(source).plan.tasks
        if task.id in prediction.tasks and (is_young or not list_claims(prediction.tasks[task.id]))
    ]
    answer = ask_for_files(directory, tasks, agent or None, quiet=quiet) if tasks else None
    if answer is None:
        return prediction
    planner, files = answer
    named = {
        task.id: tuple(
            PredictedFile(
                path=path, probability=1.0, reason=f"{planner} names it", clues={}, claimed=True
            )
            for path in files[task.id]
        )
        for task in tasks
        if task.id in files
    }
    note = f"{planner} named the files of {count(len(named), 'task')}."
    return PlanPrediction(tasks={**prediction.tasks, **named}, used=True, note=note)


def _write(path: Path, source: PlanSource, prediction: PlanPrediction) -> None:
    whole = plan_check.read_source(source).plan
    claims = {id: list_claims(files) for id, files in prediction.tasks.items()}
    files = {id: own for id, own in claims.items() if own}
    if whole.source is Source.MARKDOWN:
        data = write_files(whole, source.data, files)
    elif whole.source in prd.FORMATS:
        data = annotator.write_json_files(whole, source.data, files)
    else:
        raise InputError(f"{whole.name} is a plan of {whole.source}, which has no place for files.")
    plan_file.replace_content(path, source.data, data)


def _is_file(directory: Path, plan: str) -> bool:
    """Tell whether an argument is a plan; a missing file of that kind is reported as such."""
    return bool(_FILE.fullmatch(plan)) or ("\n" not in plan and os.path.isfile(directory / plan))


def _explain(predictor: Predictor) -> str:
    reason = predictor.explain_disuse()
    if reason:
        return f"Shown, not used: {reason}."
    return "Tasks of plans that name no files claim files marked so."


def _as_json(titles: Mapping[str, str], prediction: PlanPrediction) -> dict[str, Any]:
    return {
        "used": prediction.used,
        "note": prediction.note,
        "tasks": [
            {"id": name, "title": titles[name], "files": to_builtins(files)}
            for name, files in prediction.tasks.items()
        ],
    }


def _task_lines(
    titles: Mapping[str, str], prediction: PlanPrediction, around: Setting
) -> Iterator[str]:
    width = shutil.get_terminal_size((80, 24)).columns
    for name, files in prediction.tasks.items():
        yield plain(f"{name} {titles[name]}".strip())
        yield from _file_lines(files, width)
    named = len(titles) - len(prediction.tasks)
    if named:
        yield f"{count(named, 'task')} left out: files named, done, or for a person."
    if not around.config.plan.predict:
        yield "Shown, not used: weft.toml has `predict = false` under [plan]."
    elif prediction.note:
        yield prediction.note


def _file_lines(files: Sequence[PredictedFile], width: int) -> Iterator[str]:
    likely = [file for file in files if not file.may_touch]
    if not likely:
        yield "      no file is known to belong to this text"
    for file in likely[:_MOST_SHOWN]:
        mark = "*" if file.claimed else " "
        line = f"{file.probability:4.0%} {mark} {plain(file.path)}"
        reason = plain(file.reason)
        if len(line) + len(reason) + 2 <= width:
            yield f"{line}  {reason}"
        else:
            yield line
            yield f"       {reason}"
    if len(likely) > _MOST_SHOWN:
        yield f"       and {len(likely) - _MOST_SHOWN} less likely"
    hubs = [plain(file.path) for file in files if file.may_touch]
    if hubs:
        yield f"       may touch {listed(hubs)}"


def _score_json(predictor: Predictor) -> dict[str, Any]:
    declared = count_declared(predictor.attempts)
    return {
        "history": to_builtins(predictor.knowledge.score),
        "attempts": to_builtins(score_attempts(predictor.attempts)),
        "declared": {"attempts": declared[0], "recall": declared[1]},
        "weights": {clue.value: round(value, 3) for clue, value in predictor.weights.items()},
        "used": not predictor.explain_disuse(),
    }


def _score_lines(predictor: Predictor) -> Iterator[str]:
    past = predictor.knowledge.score
    if past is not None:
        yield f"On the last {count(past.cases, 'commit')}, each from the commits before it:"
        yield from _figures(past)
        yield f"  recall of the files that messages name  {past.named_recall:.2f}"
    own = score_attempts(predictor.attempts)
    if own.cases:
        yield f"On {count(own.cases, 'attempt')} of weft with predicted files:"
        yield from _figures(own)
    attempts, share = count_declared(predictor.attempts)
    if attempts:
        changed = f"{share:.0%} of the changed files"
        yield f"In {count(attempts, 'attempt')} with declared files, {changed} were declared."
    weights = ", ".join(f"{clue} {value:.2f}" for clue, value in predictor.weights.items())
    yield "Weights of the clues:"
    yield f"  {weights}"
    yield _explain(predictor)


def _figures(result: Score) -> Iterator[str]:
    yield f"  recall at {AT} files       {result.recall:.2f}"
    yield f"  precision at {AT} files    {result.precision:.2f}"
    yield f"  every file predicted    {result.all_files:.2f}"
