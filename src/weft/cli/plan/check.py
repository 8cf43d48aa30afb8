"""`weft plan check`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from weft.cli.output import json_option, print_json
from weft.cli.plan import plan_text
from weft.plan.plan_records import Source
from weft.runs import plan_check


@click.command(name="check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@plan_text.slots_option
@plan_text.take_option
@plan_text.format_option
@json_option
@click.pass_obj
def command(
    directory: Path,
    files: tuple[str, ...],
    slots: int | None,
    take: tuple[str, ...],
    plan_format: Source | None,
    as_json: bool,
) -> int:
    """Report every problem of a plan, like a compiler.

    Each problem has its place, a code and a suggestion; the last line says how long the plan
    would take. Exits with 2 if there are errors; warnings alone exit with 0.

    Example: weft plan check plan.md --slots 4
    """
    sources = [plan_check.load(directory, name, take, plan_format) for name in files]
    with plan_check.setting(directory, os.environ) as around:
        checked = [plan_check.check(source, around, slots) for source in sources]
    plan_text.warn(checked[0].warning)
    if as_json:
        answers = [plan_check.as_json(plan) for plan in checked]
        named = [
            {"file": plan.name, **answer} for plan, answer in zip(checked, answers, strict=True)
        ]
        print_json(answers[0] if len(answers) == 1 else named)
    else:
        for plan in checked:
            plan_text.print_problems(plan)
    return 2 if any(plan.failed for plan in checked) else 0
