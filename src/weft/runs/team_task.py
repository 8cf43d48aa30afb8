"""`weft do --team`: a task for a team, as a run of its own.

A team needs the gate, which checks the candidates; the gate belongs to a run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from weft.errors import InputError
from weft.formats import first_sentence
from weft.plan.plan_records import Source
from weft.project.project import Project
from weft.runs.plan_check import PlanSource
from weft.runs.preparation import PlanUpload, RunOptions
from weft.runs.single_task import NOTHING
from weft.runs.submission import submit_upload
from weft.teams.team_text import parse_team


def submit_team_task(
    project: Project,
    text: str,
    team: str,
    *,
    files: Sequence[str],
    agent: str,
    needs_labels: Sequence[str] = (),
) -> str:
    """Submit a run with a single task and its team; return the run."""
    if not text.strip():
        raise InputError('Say what is to be done: weft do "fix the typo" --team hedge.')
    if NOTHING in files:
        raise InputError("A team changes files, so that a candidate can be chosen; name them.")
    try:
        parse_team(team)
    except ValueError as wrong:
        raise InputError(f"--team {team!r} is not {wrong}.") from None
    story: dict[str, object] = {
        "id": "do",
        "title": first_sentence(text),
        "description": text,
        "team": team,
        "needs_labels": list(needs_labels),
    }
    if files:
        story["files"] = list(files)
    document = {"title": first_sentence(text), "stories": [story]}
    source = PlanSource(name="do", data=json.dumps(document).encode(), format=Source.PRD)
    upload = PlanUpload(source=source, stem="do", place="", spec="")
    options = RunOptions(agent=agent, format=Source.PRD)
    submitted, _ = submit_upload(project, upload, options)
    return submitted.run
