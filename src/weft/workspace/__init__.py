"""Workspaces: a checkout per attempt, its changes, and an archive of its work."""

from weft.workspace.candidate import candidate
from weft.workspace.changes import Changes, changes, out_of_scope
from weft.workspace.handout import attach, find_copied, list_handed_out, prepare
from weft.workspace.inspection import Unkeepable
from weft.workspace.names import branch_ref, check_ref
from weft.workspace.release import (
    Leftover,
    LeftoverReport,
    clean,
    discard,
    discard_abandoned,
    list_leftovers,
    release,
)
from weft.workspace.setup import SetupFiles, port_variables, set_up
from weft.workspace.workspace_records import Terms, Workspace

__all__ = [
    "Changes",
    "Leftover",
    "LeftoverReport",
    "SetupFiles",
    "Terms",
    "Unkeepable",
    "Workspace",
    "attach",
    "branch_ref",
    "candidate",
    "changes",
    "check_ref",
    "clean",
    "discard",
    "discard_abandoned",
    "find_copied",
    "list_handed_out",
    "list_leftovers",
    "out_of_scope",
    "port_variables",
    "prepare",
    "release",
    "set_up",
]
