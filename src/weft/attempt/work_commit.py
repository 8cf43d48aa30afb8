"""Commits of the work that an ended attempt left in its workspace."""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from weft import git, workspace
from weft.attempt import start
from weft.attempt.ended_attempt import SUMMARY_LENGTH, Ended, read_summary
from weft.attempt.leaked_secrets import refuse_secrets
from weft.errors import WeftError
from weft.process import BrokenOff
from weft.workspace import Changes
from weft.workspace.candidate import compose

log = logging.getLogger(__name__)

_KINDS: Final = "build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test"
_CONVENTIONAL: Final = re.compile(rf"({_KINDS})(\([\w./ -]{{1,40}}\))?!?: \S.{{0,90}}")
_FIXES: Final = re.compile(r"(fix|repair|correct)(es|s)?\b", re.IGNORECASE)
_FEW: Final = 8  # commits of an agent whose messages are read
_SIGNED: Final = re.compile(r"\s*signed-off-by\s*:", re.IGNORECASE)


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
    try:
        return _commit_changes(ended, changes or workspace.changes(ended.workspace))
    except git.ObjectsGone:  # since the changes were read; the files still have all of them
        return git.outlast_gc(lambda: _commit_changes(ended, workspace.changes(ended.workspace)))


def _commit_changes(ended: Ended, changes: Changes) -> str | None:
    refuse_secrets(ended.site, ended.workspace, changes.paths)
    settings = git.read_settings(ended.site.root)
    name, email = settings.get("user.name"), settings.get("user.email")
    return workspace.candidate(
        ended.workspace,
        _message(ended, changes),
        author=(name or "weft", email or "weft@localhost"),
        trailers=_trailers(ended),
        date=f"{int(ended.order.started)} +0000",
        tree=changes.tree,
    )


def commit_nothing(ended: Ended) -> str:
    """Make an empty commit; the gate runs the task's own check on it."""
    place = ended.workspace

    def commit() -> str:
        made = git.commit_tree(
            place.common,
            place.base_tree,
            [place.base],
            compose(_message(ended, None), _trailers(ended)),
            name="weft",
            email="weft@localhost",
            date=f"{int(ended.order.started)} +0000",
        )
        before = git.find_ref(place.common, place.branch)
        moved = [git.Update(ref=place.branch, old=before, new=made)]
        git.update_refs_to_whole(place.common, moved, excluding=place.base)
        return made

    return git.outlast_gc(commit)


def _message(ended: Ended, changes: Changes | None) -> str:
    """Return the message of the agent's own commit if it made one with a conventional subject;
    otherwise the title, in the style of `[commit]`, and the agent's summary."""
    own = None if changes is None else _find_own_message(ended, changes)
    if own is None:
        title = ended.order.title
        if ended.site.config.commit.style == "conventional":
            title = make_conventional(title, changes.paths if changes else ())
        own = message(title, read_summary(ended))
    # People sign off; no agent may, whatever it writes.
    return "\n".join(line for line in own.split("\n") if not _SIGNED.match(line))


def _find_own_message(ended: Ended, changes: Changes) -> str | None:
    try:
        commits = changes.commits
        few = commits if len(commits) <= _FEW else ()
        texts = git.list_messages(changes.workspace.common, few)
    except WeftError as error:  # damaged objects of the agent; the files are whole
        log.warning("could not read the commits of %s: %s", ended.order.name, error)
        return None
    # A candidate of weft's is there after a crash, or as the start of a resumed attempt.
    texts = [text for text in texts if "\nWeft-Attempt: " not in text]
    text = git.split_trailers(texts[0].encode(errors="replace"))[0] if len(texts) == 1 else b""
    own = ended.site.store.redactor.redact_text(text.decode())
    subject = own.partition("\n")[0]
    return (
        own[:SUMMARY_LENGTH] if _CONVENTIONAL.fullmatch(subject) and subject.isprintable() else None
    )


def make_conventional(title: str, paths: Sequence[str]) -> str:
    """Return a title as a conventional subject; `paths` give its scope: `feat(auth): title`."""
    if _CONVENTIONAL.fullmatch(title):
        return title
    kind = "fix" if _FIXES.match(title) else "feat"
    common = PurePosixPath(posixpath.commonpath(paths) if paths else "")
    scope = re.sub(r"[^\w-]+", "-", common.stem).strip("-").lower()
    title = title[:1].lower() + title[1:] if title[1:2].islower() else title
    return f"{kind}{f'({scope})' if scope else ''}: {title}"


def _trailers(ended: Ended) -> dict[str, str]:
    order = ended.order
    return {
        "Assisted-by": f"{order.program}:{order.model}" if order.model else order.program,
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
