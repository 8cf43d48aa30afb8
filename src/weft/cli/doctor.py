"""`weft doctor`"""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from weft.cli.output import json_option, print_json, say
from weft.maintenance.examination import examine, examine_project
from weft.project.project import find_elsewhere


@click.command(name="doctor")
@json_option
@click.pass_obj
def command(directory: Path, as_json: bool) -> int:
    """Check git, the store, the limits and the agents.

    Looked at are git, the store, the limits, agent files and their programs. A note is good to
    know and nothing more. Exits with 2 if anything is wrong.
    """
    elsewhere = find_elsewhere(directory, os.environ)
    if elsewhere is not None:
        findings = examine_project(elsewhere, now=time.time())
    else:
        findings = examine(directory, os.environ, now=time.time())
    good = all(finding.good for finding in findings)
    if as_json:
        checks = [{"name": f.name, "ok": f.good, "text": f.text} for f in findings]
        print_json({"ok": good, "checks": checks})
    else:
        for finding in findings:
            mark = "PROBLEM" if not finding.good else "note" if finding.notable else "ok"
            say(f"{mark:7}  {finding.name}: {finding.text}")
    return 0 if good else 2
