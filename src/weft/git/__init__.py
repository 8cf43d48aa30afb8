"""Questions and commands to git: one typed function each, NUL-separated, in a clean environment."""

from weft.git.command import GitFailed, View
from weft.git.refs import (
    RefMoved,
    Update,
    find_ref,
    is_ancestor,
    list_refs,
    unreachable,
    update_refs,
)
from weft.git.repository import (
    OLDEST,
    Commit,
    NoSuchCommit,
    NotARepository,
    checked_out,
    common_directory,
    find_top_level,
    get_commit,
    git_directory,
    has_commits,
    settings,
    top_level,
    tracked_files,
    version,
)
from weft.git.trees import Change, Kind, commit_tree, compare_trees

__all__ = [
    "OLDEST",
    "Change",
    "Commit",
    "GitFailed",
    "Kind",
    "NoSuchCommit",
    "NotARepository",
    "RefMoved",
    "Update",
    "View",
    "checked_out",
    "commit_tree",
    "common_directory",
    "compare_trees",
    "find_ref",
    "find_top_level",
    "get_commit",
    "git_directory",
    "has_commits",
    "is_ancestor",
    "list_refs",
    "settings",
    "top_level",
    "tracked_files",
    "unreachable",
    "update_refs",
    "version",
]
