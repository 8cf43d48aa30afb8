"""`weft init`"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from weft import git
from weft.cli.check_progress import CheckProgress
from weft.cli.output import json_option, print_json, say
from weft.config import BoxKind, load
from weft.maintenance.detection import Detection, detect, with_check
from weft.maintenance.project_files import TEMPLATES, init
from weft.project.agent_list import WITHOUT_SANDBOX, describe_unboxed
from weft.project.project import get_project
from weft.project.site import agent_names, read_agent, read_agent_file

_NEXT = (
    'next: commit these files. Then try `weft do "Say hello" --agent try`, which',
    "needs no model and no key, or write a plan.md and `weft run plan.md`.",
)


@click.command(name="init")
@click.option("--yes", is_flag=True, help="Ask nothing; take the detected check.")
@click.option(
    "--template",
    type=click.Choice(list(TEMPLATES)),
    help="Write a set of agents besides: loop is for `weft loop`.",
)
@json_option
@click.pass_obj
def command(directory: Path, yes: bool, template: str | None, as_json: bool) -> int:
    """Write weft.toml and .weft/agents/ for this repository.

    weft looks for installed agents, the test command, ignored files that tests need, and a
    sandbox, writes them down, and tries the result on HEAD as `weft run` would. It overwrites no
    file, so it is safe to run again. Exits with 1 if the trial has a PROBLEM: the files are
    written, and `weft run` refuses to start until the problem is solved. A check that takes more
    than two minutes may be stopped. `weft doctor --check` repeats the trial alone.
    """
    root = git.top_level(directory)
    detection = detect(root, os.environ)
    if not (yes or as_json) and sys.stdin.isatty() and not (root / "weft.toml").exists():
        detection = _ask(detection)
    written = init(root, detection, template)
    created = [file.path for file in written if file.created]
    kept = [file.path for file in written if not file.created]
    if not as_json:
        lines = (*_found(detection), *_assumed(root, detection), *_unboxed(root))
        for line in (*lines, *_unfit(root, template)):
            say(line)
        for path in created:
            say(f"created  {path}")
        for path in kept:
            say(f"kept     {path}")
    agent, base = _try(root, asks=not (yes or as_json))
    faults = list(filter(None, (agent, base)))
    if as_json:
        files = {"root": str(root), "created": created, "kept": kept}
        verdict = {"problems": faults, "check_passed": not base}
        print_json({**files, **_as_json(root, detection), **verdict})
        return 1 if faults else 0
    for fault in faults:
        for number, line in enumerate(fault.splitlines()):
            say(f"{'' if number else 'PROBLEM  '}{line}")
    if not base:
        say("ok       the set-up and the check work on HEAD")
    for line in ("`weft init` or `weft doctor --check` tries it again.",) if faults else _NEXT:
        say(line)
    return 1 if faults else 0


def _ask(detection: Detection) -> Detection:
    if detection.test is not None:
        say(f"{detection.test.source} suggests `{detection.check}`.")
    line = click.prompt(
        "Command that must pass before work lands (- for none)", default=detection.check or "-"
    )
    return with_check(detection, line.strip())


def _found(detection: Detection) -> Iterator[str]:
    if detection.agents:
        yield f"found    agents: {', '.join(detection.agents)}"
    if detection.test is not None:
        yield f"found    tests: `{detection.check}` ({detection.test.source})"
    for name in detection.link:
        yield f"found    {name}: linked into each workspace"
    for name in detection.copy:
        yield f"found    {name}: copied into each workspace"
    if detection.sandbox is not BoxKind.OFF:
        yield f"found    sandbox: {detection.sandbox}"


def _assumed(root: Path, detection: Detection) -> Iterator[str]:
    """Yield the guesses and dangers of a set-up."""
    if not detection.agents:
        yield (
            "assumed  agents: claude, though none of claude, codex, opencode and gemini is "
            "installed; `runs:` in .weft/agents/*.md names another program"
        )
    elif len(detection.agents) > 1:
        yield f"assumed  agents: {detection.agents[0]} does the work; --agent NAME chooses another"
    if detection.test is None:
        yield "assumed  tests: none, so nothing is checked; set `run` in [gate] of weft.toml"
    elif detection.missing_program:
        yield f"assumed  tests: {detection.test.program} will be installed; it is not yet"
    if detection.editable is not None:
        yield (
            "assumed  imports: an editable install leads to this checkout, so the check sets "
            "PYTHONPATH to its workspace"
        )
    if detection.check and load(root, {}).gate.run is None:
        yield f"note     weft.toml has no check; add `run = '{detection.check}'` to its [gate]"
    if detection.sandbox is BoxKind.OFF:
        yield (
            f"WARNING  sandbox: OFF, since neither bwrap nor Landlock works here; {WITHOUT_SANDBOX}"
        )


def _unboxed(root: Path) -> Iterator[str]:
    files = {name: read_agent_file(root, name) for name in agent_names(root)}
    if unboxed := describe_unboxed(load(root, {}).gate, files):
        yield f"WARNING  sandbox: {unboxed}"


def _unfit(root: Path, template: str | None) -> Iterator[str]:
    """Yield the agents of a loop that are other files of yours and hand over to no agent."""
    names = ("dispatch", "develop", "review") if template == "loop" else ()
    for name in names:
        if not read_agent(root, name).hands_to:
            yield (
                f"note     .weft/agents/{name}.md was there and has no `hands_to`: a loop would "
                "end at it; add `hands_to`, or move it away and run this again"
            )


def _try(root: Path, *, asks: bool) -> tuple[str, str]:
    from weft.worker.preflight import preflight_checkout  # late: it imports the gate

    begin = "trying the set-up and the check on HEAD, as `weft run` would …"
    with CheckProgress(begin, asks=asks) as watch:
        return preflight_checkout(get_project(root, os.environ), watch)


def _as_json(root: Path, detection: Detection) -> dict[str, object]:
    return {
        "agents": list(detection.agents),
        "check": detection.check,
        "check_source": detection.test and detection.test.source,
        "link": list(detection.link),
        "copy": list(detection.copy),
        "sandbox": detection.sandbox.value,
        "assumed": [line.split(maxsplit=1)[1] for line in _assumed(root, detection)],
    }
