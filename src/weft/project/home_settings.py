"""Facts of the repository at home, for hosts that have a mirror of it."""

from __future__ import annotations

from weft import git
from weft.config import RunSettings
from weft.project.project import Project
from weft.project.site import agent_names, read_agent_file
from weft.store.server_operations import hosted


@hosted("read")
def read_home_settings(project: Project) -> RunSettings:
    """Read the set-up and the agent files of a checkout, as `weft do` uses them."""
    files = {name: read_agent_file(project.root, name) for name in agent_names(project.root)}
    config = project.config
    return RunSettings(
        gate=config.gate, workspace=config.workspace, commit=config.commit, agents=files
    )


@hosted("read")
def find_kept(project: Project, commits: list[str]) -> list[str]:
    """Return those of the commits that home keeps below `refs/weft/`."""
    kept = set(git.list_refs(project.root, "refs/weft/").values())
    return sorted(kept & set(commits))
