"""Secrets of weft's in the files that an agent changed, searched before the files become a commit.

The secrets are the values that the store's redactor knows by name, the tokens that the store
accepts, and texts in the form of well-known keys. Like redaction, this catches mistakes: an encoded
secret is not found.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from weft.errors import Unauthenticated, WeftError
from weft.git.git_command import run
from weft.project.site import Site
from weft.store.tokens import identify
from weft.workspace import Workspace

_PIECE: Final = 1 << 20  # bytes searched at once
_TOKEN: Final = re.compile(rb"weft_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")
_SHAPES: Final = {
    "a GitHub token": re.compile(rb"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40,})"),
    "a GitLab token": re.compile(rb"\bglpat-[A-Za-z0-9_-]{20}"),
    "an AWS key": re.compile(rb"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    "an Anthropic key": re.compile(rb"\bsk-ant-[A-Za-z0-9_-]{32,}"),
    "an OpenAI key": re.compile(rb"\bsk-(?:proj-)?[A-Za-z0-9]{40,}"),
    "a Slack token": re.compile(rb"\bxox[abprs]-[A-Za-z0-9-]{20,}"),
    "a Google key": re.compile(rb"\bAIza[A-Za-z0-9_-]{35}\b"),
    "an npm token": re.compile(rb"\bnpm_[A-Za-z0-9]{36}\b"),
    "a private key": re.compile(
        rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s+[A-Za-z0-9+/=\s]{200,}"
    ),
}
"""Forms that programs give their secrets; examples in documents are shorter or dotted."""

_MOST_TOKENS: Final = 100  # tokens of a piece that are looked up in the store


class SecretFound(WeftError):
    """A file that an agent changed contains a secret."""


def refuse_secrets(site: Site, workspace: Workspace, paths: Iterable[str]) -> None:
    """Raise `SecretFound` if a changed file contains a secret that its base did not contain."""
    for path in paths:
        names = _find(site, workspace.path / path, os.fsencode(path))
        if names and not names <= _find_before(site, workspace, path):
            raise SecretFound(
                f"The agent put a secret ({', '.join(sorted(names))}) into {path}, so nothing of "
                "its work was made a candidate; its files are kept under refs/weft/archive/. "
                "Replace that secret if other people may have seen it, then `weft retry` the task."
            )


def _find(site: Site, file: Path, name: bytes) -> set[str]:
    """Return the names of the secrets in a file's name and content."""
    names: set[str] = set()
    for piece in (name, *_pieces(file, site.store.redactor.reach)):
        names |= _names(site, piece)
    return names


def _find_before(site: Site, workspace: Workspace, path: str) -> set[str]:
    done = run(workspace.common, "cat-file", "blob", f"{workspace.base_tree}:{path}")
    return _names(site, os.fsencode(done.output)) if done.status == 0 else set()


def _pieces(file: Path, overlap: int) -> Iterator[bytes]:
    """Yield the content of a file or link, in pieces that overlap by the length of any secret."""
    try:
        if file.is_symlink():
            yield os.fsencode(os.readlink(file))
            return
        number = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # deleted by the agent
        return
    with open(number, "rb") as opened:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return
        kept = b""
        while piece := opened.read(_PIECE):
            yield kept + piece
            kept = (kept + piece)[-overlap:]


def _names(site: Site, text: bytes) -> set[str]:
    tokens = {token.decode() for token in _TOKEN.findall(text)[:_MOST_TOKENS]}
    owners = filter(None, (_owner(site, token) for token in tokens))
    shapes = (name for name, shape in _SHAPES.items() if shape.search(text))
    return {*site.store.redactor.find_names(text), *owners, *shapes}


def _owner(site: Site, token: str) -> str | None:
    try:
        return f"weft's token {identify(site.store, token, now=time.time()).name!r}"
    except Unauthenticated:
        return None
