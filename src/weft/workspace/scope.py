"""Whether a change stays within the files its task claimed. A pure decision over `Changes`."""

from __future__ import annotations

from collections.abc import Iterable

from weft.paths import matches
from weft.workspace.changes import Changes


def out_of_scope(changes: Changes, claims: Iterable[str]) -> tuple[str, ...]:
    """The touched paths that no claim matches; a rename touches both its paths.

    Claims are normalised patterns and match exactly, letter case included. That a claimed
    symlink leads out of the repository is told by `Changes.escapes`, since no larger claim
    would cure it.
    """
    patterns = tuple(claims)
    return tuple(
        path for path in changes.paths if not any(matches(pattern, path) for pattern in patterns)
    )
