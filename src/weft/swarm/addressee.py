"""The addressee of a sent task: an agent of the repository, or members of the swarm.

The name of an agent file wins over a capability of the same name.
"""

from __future__ import annotations

from msgspec.structs import replace

from weft import git
from weft.project.project import Project
from weft.project.site import agent_names, read_agent
from weft.swarm.identity import Identity, need_agent
from weft.swarm.swarm_records import NewWork


def address(who: Identity, project: Project, work: NewWork) -> NewWork:
    """Return the task with the repository, stage and provider of the agent file it names, if any.

    Raise `Forbidden` if this identity may not send work to that agent.
    """
    if work.agent is None or work.to is not None or work.agent not in agent_names(project.root):
        return work
    about = read_agent(project.root, work.agent)
    need_agent(who, about)
    return replace(
        work,
        repo=str(git.common_directory(project.root)),
        stage=about.stage or "implement",
        provider=about.provider,
    )
