"""`weft doctor`"""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from weft.cli.check_progress import CheckProgress
from weft.cli.output import json_option, show
from weft.maintenance.examination import (
    PREFLIGHT,
    Finding,
    examine,
    examine_project,
    try_checkout,
)
from weft.project.project import find_server_project, get_project


@click.command(name="doctor")
@click.option(
    "--check",
    "checks",
    is_flag=True,
    help="Also try the set-up and the check on HEAD, and the usual agent, as `weft run` would.",
)
@json_option
@click.pass_obj
def command(directory: Path, checks: bool, as_json: bool) -> int:
    """Check git, the store, the limits and the agents.

    Looked at are git, the store, the limits, agent files and their programs. A note is good to
    know and nothing more. Exits with 2 if anything is wrong.
    """
    elsewhere = find_server_project(directory, os.environ)
    if elsewhere is not None:
        findings = examine_project(elsewhere, now=time.time())
        findings += try_checkout(elsewhere) if checks else []
    else:
        findings = examine(directory, os.environ, now=time.time())
        findings += _try_checkout(directory) if checks else []
    good = all(finding.good for finding in findings)
    entries = [{"name": f.name, "ok": f.good, "text": f.text} for f in findings]
    lines = [
        line
        for finding in findings
        for line in f"{_mark(finding):7}  {finding.name}: {finding.text}".splitlines()
    ]
    show({"ok": good, "checks": entries}, lines, as_json=as_json)
    return 0 if good else 2


def _try_checkout(directory: Path) -> list[Finding]:
    from weft.worker.preflight import preflight_checkout  # late: it imports the gate

    project = get_project(directory, os.environ)
    with CheckProgress("weft: trying the set-up and the check on HEAD") as watch:
        faults = list(filter(None, preflight_checkout(project, watch)))
    if not faults:
        return [Finding(name=PREFLIGHT, good=True, text="agents, set-up and check work on HEAD")]
    return [Finding(name=PREFLIGHT, good=False, text=fault) for fault in faults]


def _mark(finding: Finding) -> str:
    if not finding.good:
        return "PROBLEM"
    if finding.loud:
        return "WARNING"
    return "note" if finding.notable else "ok"
