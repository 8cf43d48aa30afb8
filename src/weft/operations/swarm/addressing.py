"""Who a task that is sent is for: an agent of the repository's, or members of the swarm.

An agent file's name goes before a capability of the same name. How deep leads may send work to
leads is bounded here, so that no chain of them goes on for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from weft import git
from weft.attempt.site import agent_names, read_agent
from weft.errors import Refused
from weft.operations.project import Project
from weft.operations.swarm.identity import Identity
from weft.operations.swarm.records import NewWork
from weft.store import Store
from weft.store.tasks import get_task

DEEPEST: Final = 3
"""How many tasks may stand between a task that an agent sent and one that a person did."""

_DEPTH: Final = "depth"


def address(store: Store, who: Identity, project: Project, work: NewWork) -> NewWork:
    """The task as it is to be sent; only looks."""
    deeper = replace(work, details={**work.details, **_depth(store, who)})
    if work.agent is None or work.to is not None or work.agent not in agent_names(project.root):
        return deeper
    about = read_agent(project.root, work.agent)
    return replace(
        deeper,
        repo=str(git.common_directory(project.root)),
        stage=about.stage or "implement",
        provider=about.provider,
    )


def _depth(store: Store, who: Identity) -> Mapping[str, Any]:
    if who.task is None:
        return {}
    before = get_task(store, who.task).details.get(_DEPTH)
    depth = 1 + (before if isinstance(before, int) else 0)
    if depth > DEEPEST:
        raise Refused(
            f"This task was itself sent by one that was sent, {DEEPEST} deep; end with what is "
            "left to do, and let those who sent it decide."
        )
    return {_DEPTH: depth}
