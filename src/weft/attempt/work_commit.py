"""Commits of the work that an ended attempt left in its workspace."""

from __future__ import annotations

import logging

from weft import git, workspace
from weft.attempt import start
from weft.attempt.ended_attempt import SUMMARY_LENGTH, Ended, read_summary
from weft.attempt.leaked_secrets import refuse_secrets
from weft.errors import WeftError
from weft.process import BrokenOff
from weft.workspace import Author, Candidate, Changes
from weft.workspace.candidate import compose

log = logging.getLogger(__name__)


def keep_work(ended: Ended) -> str | None:
    """Commit the work of a failed attempt; return None if there is none or it is unreadable."""
    try:
        return commit_work(ended)
    except BrokenOff:
        raise
    except (WeftError, OSError) as error:
        log.warning("could not commit the work on %s: %s", ended.order.branch, error)
        return None


def commit_work(ended: Ended, changes: Changes | None = None) -> str | None:
    """Commit the workspace on the attempt's branch; return None without a change.

    `changes` are the changes, if the caller has read them already. Raise `SecretFound` if a changed
    file contains a secret.
    """
    changes = changes or workspace.changes(ended.workspace)
    refuse_secrets(ended.site, ended.workspace, changes.paths)
    settings = ended.site.looks.settings(ended.site.root)
    author = Author(
        name=settings.get("user.name") or "weft",
        email=settings.get("user.email") or "weft@localhost",
    )
    made = workspace.candidate(
        ended.workspace,
        message(ended.order.title, read_summary(ended)),
        author=author,
        trailers=_trailers(ended),
        date=f"{int(ended.order.started)} +0000",
        tree=changes.tree,
    )
    return made.commit if isinstance(made, Candidate) else None


def commit_nothing(ended: Ended) -> str:
    """Make an empty commit; the gate runs the task's own check on it."""
    place = ended.workspace
    made = git.commit_tree(
        place.common,
        place.base_tree,
        [place.base],
        compose(message(ended.order.title, read_summary(ended)), _trailers(ended)),
        name="weft",
        email="weft@localhost",
        date=f"{int(ended.order.started)} +0000",
    )
    before = git.find_ref(place.common, place.branch)
    if before != made:
        git.update_refs(place.common, [git.Update(ref=place.branch, old=before, new=made)])
    return made


def _trailers(ended: Ended) -> dict[str, str]:
    return {
        "Weft-Run": ended.order.run or start.AD_HOC,
        "Weft-Task": ended.order.name,
        "Weft-Attempt": str(ended.order.attempt),
    }


def message(title: str, summary: str) -> str:
    """Compose a commit message of the task's title and the agent's summary."""
    body = summary.strip()[:SUMMARY_LENGTH]
    head = " ".join(title.split())
    head = head if len(head) <= 72 else head[:71] + "…"
    return f"{head}\n\n{body}" if body else head
