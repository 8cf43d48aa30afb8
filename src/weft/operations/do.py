"""`weft do`: one task, handed in without a plan."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from weft import git, paths
from weft.attempt.site import agent_names, read_agent
from weft.errors import InputError
from weft.model import Class, NewTask
from weft.operations.project import Project
from weft.policy.capacity import attempt_demand
from weft.store import Store
from weft.store.tasks import submit

DEFAULT_AGENT: Final = "implement"
EVERYTHING: Final = "**"
NOTHING: Final = "none"


def hand_in(project: Project, store: Store, text: str, *, files: Sequence[str], agent: str) -> int:
    """Submit an ad-hoc task; returns its number. Without files it claims the whole repository."""
    if not text.strip():
        raise InputError('Say what is to be done: weft do "fix the typo in README.md".')
    if agent not in agent_names(project.root):
        known = ", ".join(agent_names(project.root)) or "none; `weft init` writes a useful set"
        raise InputError(f"There is no agent {agent!r} in .weft/agents (there are: {known}).")
    about = read_agent(project.root, agent)
    if not git.has_commits(project.root):
        raise InputError("The repository has no commit yet; make one first.")
    task = NewTask(
        name="",
        text=text,
        files=_claims(files),
        demand=attempt_demand(run=None, stage=None, agent=agent, provider=about.provider),
        klass=Class.INTERACTIVE,
        agent=agent,
        stage=about.stage or "implement",
    )
    return submit(store, task, repo=repository(project), now=time.time())


def repository(project: Project) -> str:
    """What names a repository in the store, from whichever checkout it is used."""
    return str(git.common_directory(project.root))


def _claims(files: Sequence[str]) -> tuple[str, ...]:
    if list(files) == [NOTHING]:
        return ()
    if NOTHING in files:
        raise InputError("`--files none` stands alone: the task then changes nothing.")
    return tuple(paths.normalise(file) for file in files) or (EVERYTHING,)
