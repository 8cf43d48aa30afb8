"""Workspaces: one checkout per attempt, what changed there, and nothing lost when it ends."""

from weft.workspace.candidate import Author, Candidate, NoChange, candidate
from weft.workspace.changes import Changes, changes
from weft.workspace.contents import Brought
from weft.workspace.fingerprint import Fingerprint, compare, fingerprint, settings_files
from weft.workspace.handout import attach, find_copied, handed_out, prepare
from weft.workspace.inspection import Unkeepable
from weft.workspace.leftovers import Leftover, LeftoverReport, clean, survey
from weft.workspace.names import branch_ref, check_ref
from weft.workspace.release import discard, discard_abandoned, release
from weft.workspace.scope import out_of_scope
from weft.workspace.setup import port_variables, set_up
from weft.workspace.workspace_records import Terms, Workspace

__all__ = [
    "Author",
    "Brought",
    "Candidate",
    "Changes",
    "Fingerprint",
    "Leftover",
    "LeftoverReport",
    "NoChange",
    "Terms",
    "Unkeepable",
    "Workspace",
    "attach",
    "branch_ref",
    "candidate",
    "changes",
    "check_ref",
    "clean",
    "compare",
    "discard",
    "discard_abandoned",
    "find_copied",
    "fingerprint",
    "handed_out",
    "out_of_scope",
    "port_variables",
    "prepare",
    "release",
    "set_up",
    "settings_files",
    "survey",
]
