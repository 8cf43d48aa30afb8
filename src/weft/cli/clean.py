"""`weft clean`"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click
from msgspec import to_builtins

from weft.cli.command_arguments import Duration, pass_project
from weft.cli.output import json_option, show
from weft.maintenance import cleanup
from weft.project.project import Project
from weft.workspace.release import Leftover, LeftoverReport


@click.command(name="clean")
@click.option("--dry-run", is_flag=True, help="Say what would be freed, and change nothing.")
@click.option(
    "--branches",
    "all_branches",
    is_flag=True,
    help="Free the branches of all ended tasks, results you have not taken included.",
)
@click.option(
    "--older-than",
    default="14d",
    show_default=True,
    type=Duration("12h, 14d or 0d", least=0),
    metavar="AGE",
    help="Free records and output of attempts whose tasks ended so long ago: 12h, 14d, 0d.",
)
@json_option
@pass_project
def command(
    project: Project, dry_run: bool, all_branches: bool, older_than: float, as_json: bool
) -> None:
    """Free workspaces, branches and records that no task needs.

    Nothing in use is touched, and nothing of a task that has not ended. The branch of a task done
    by `weft do` stays until its work is in the branch you are on, merged or cherry-picked. What
    exists nowhere else is kept under refs/weft/archive before its branch goes, so that
    `git branch NAME refs/weft/archive/…` brings it back.
    """
    free = cleanup.survey if dry_run else cleanup.clean
    branches = cleanup.Branches.ALL if all_branches else cleanup.Branches.TAKEN
    report = free(project, branches=branches, older_than=older_than)
    fields = {"dry_run": dry_run, **to_builtins(report), "bytes": report.bytes}
    text = lines(report, "would free" if dry_run else "freed", project.root)
    show(fields, text, as_json=as_json)


def lines(report: LeftoverReport, verb: str, root: Path) -> list[str]:
    """List freed and kept items, each with its reason; attempts, which are many, as numbers."""
    kept = "kept".ljust(len(verb))
    items = [
        *(f"{verb}  {_describe(item, root)}" for item in report.freed if item.kind != "attempt"),
        *(f"{verb}  {text}" for text in _numbers(report.freed)),
        *(f"{kept}  {_describe(item, root)}" for item in report.kept if item.kind != "attempt"),
        *(f"{kept}  {text}" for text in _numbers(report.kept)),
        *(f"{kept}  {ref}" for ref in report.archived),
    ]
    what = Counter(item.kind for item in report.freed)
    listed = ", ".join(f"{n} {_plural(kind, n)}" for kind, n in sorted(what.items())) or "nothing"
    return [*items, f"{verb.capitalize()} {listed}: {in_units(report.bytes)}."]


def _describe(item: Leftover, root: Path) -> str:
    name = item.name.removeprefix(f"{root}/")
    if name.startswith(f"{root.parent}/"):
        name = f"../{name.removeprefix(f'{root.parent}/')}"
    space = f", {in_units(item.bytes)}" if item.bytes else ""
    return f"{item.kind} {name}: {item.why}{space}"


def _numbers(items: tuple[Leftover, ...]) -> list[str]:
    attempts = [item for item in items if item.kind == "attempt"]
    numbers = Counter(item.why for item in attempts)
    return [
        f"{n} {_plural('attempt', n)}: {why}, "
        f"{in_units(sum(item.bytes for item in attempts if item.why == why))}"
        for why, n in sorted(numbers.items())
    ]


def _plural(kind: str, number: int) -> str:
    if number == 1 or kind == "trash":
        return kind
    return f"{kind}es" if kind == "branch" else f"{kind}s"


def in_units(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
