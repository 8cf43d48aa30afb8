"""Workspaces: one checkout per attempt, what changed there, and nothing lost when it ends."""

from weft.workspace.brought import Brought
from weft.workspace.candidate import Author, Candidate, NoChange, candidate
from weft.workspace.changes import Changes, changes
from weft.workspace.clean import Item, Report, clean, survey
from weft.workspace.fingerprint import Fingerprint, compare, fingerprint, settings_files
from weft.workspace.inspection import Unkeepable
from weft.workspace.names import branch_ref, check_ref
from weft.workspace.prepare import attach, find_copied, handed_out, prepare
from weft.workspace.records import Terms, Workspace
from weft.workspace.release import discard, discard_abandoned, release
from weft.workspace.scope import out_of_scope
from weft.workspace.setup import port_variables, set_up

__all__ = [
    "Author",
    "Brought",
    "Candidate",
    "Changes",
    "Fingerprint",
    "Item",
    "NoChange",
    "Report",
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
