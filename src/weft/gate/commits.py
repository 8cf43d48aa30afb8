"""From merged trees to the commits that land: one per candidate, or one per story.

Built only when it is decided what lands; the same input gives the same ids, so a landing that
was interrupted can be built again. Moving trunk is left to whoever holds the gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from weft.git import split_trailers
from weft.git.object_store import Plumbing
from weft.git.objects import Object, commit, identify, read_commit

_COMMITTER: Final = b"weft <weft@localhost>"


class LandingCommit(Struct, frozen=True, kw_only=True):
    """One commit to be: a merged tree and whose work it is."""

    tree: str
    candidates: tuple[str, ...]  # commits; author, date and message are the last one's
    message: str | None = None  # in place of that message, for a story
    trailers: tuple[tuple[str, str], ...] = ()  # to be added: ("Weft-Task", "7")


def commit_chain(
    plumbing: Plumbing, tip: str, landings: Sequence[LandingCommit], *, committed: int
) -> tuple[str, ...]:
    """Write one commit per landing, each on the one before, the first on the tip.

    `committed` is the committer's date in seconds since 1970.
    """
    candidates = list(dict.fromkeys(name for one in landings for name in one.candidates))
    found = dict(zip(candidates, plumbing.read_commits(candidates), strict=True))
    chain: dict[str, Object] = {}
    parent = tip
    for landing in landings:
        one = _build(landing, [found[name] for name in landing.candidates], parent, committed)
        parent = identify(one, tip)
        chain[parent] = one
    plumbing.write(chain)
    return tuple(chain)


def tree_of(plumbing: Plumbing, commit: str) -> str:
    """The tree a commit really holds, whatever replacements the repository knows."""
    (content,) = plumbing.read_commits([commit])
    return read_commit(content)[0][b"tree"].decode()


def _build(landing: LandingCommit, sources: Sequence[bytes], parent: str, committed: int) -> Object:
    read = [read_commit(source) for source in sources]
    headers, message = read[-1]
    encoding = headers.get(b"encoding")
    if landing.message is not None:
        message, encoding = landing.message.encode(errors="surrogateescape"), None
    text, _ = split_trailers(message)
    trailers = [
        *(line for one in (*(one for _, one in read), message) for line in split_trailers(one)[1]),
        *_co_authors([head[b"author"] for head, _ in read]),
        *(f"{key}: {' '.join(value.split())}".encode() for key, value in landing.trailers),
    ]
    paragraphs = (text, b"\n".join(dict.fromkeys(trailers)))
    return commit(
        tree=landing.tree,
        parents=(parent,),
        author=headers[b"author"],
        committer=b"%s %d +0000" % (_COMMITTER, committed),
        message=b"\n\n".join(part for part in paragraphs if part) + b"\n",
        encoding=encoding,
    )


def _co_authors(authors: Sequence[bytes]) -> list[bytes]:
    """A trailer for everyone but the last, who is the author."""
    people = [author[: author.rindex(b">") + 1] for author in authors]
    return [b"Co-authored-by: " + one for one in people if one != people[-1]]
