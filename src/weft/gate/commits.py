"""The commits that land, made from merged trees: one per candidate, or one per story.

The same input gives the same ids, so an interrupted landing can be built again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from weft.git import split_trailers
from weft.git.object_store import ObjectStore
from weft.git.objects import Object, identify, make_commit, read_commit

_COMMITTER: Final = b"weft <weft@localhost>"


class LandingCommit(Struct, frozen=True, kw_only=True):
    """A merged tree and the candidates whose work it holds."""

    tree: str
    candidates: tuple[str, ...]  # commits; the last gives author, date and message
    message: str | None = None  # replaces that message, for a story
    parents: tuple[str, ...] = ()  # besides the commit before it: a branch that it merges
    trailers: tuple[tuple[str, str], ...] = ()  # added: ("Weft-Task", "7")


def commit_chain(
    objects: ObjectStore, tip: str, landings: Sequence[LandingCommit], *, committed: int
) -> tuple[str, ...]:
    """Write a chain of commits on the tip and return their ids.

    `committed` is the committer's date in seconds since 1970.
    """
    candidates = list(dict.fromkeys(id for landing in landings for id in landing.candidates))
    contents = dict(zip(candidates, objects.read_commits(candidates), strict=True))
    chain: dict[str, Object] = {}
    parent = tip
    for landing in landings:
        sources = [contents[id] for id in landing.candidates]
        commit = _build(landing, sources, parent, committed)
        parent = identify(commit, tip)
        chain[parent] = commit
    objects.write(chain)
    return tuple(chain)


def tree_of(objects: ObjectStore, commit: str) -> str:
    """Return the tree of a commit, without the repository's replacements."""
    (content,) = objects.read_commits([commit])
    return read_commit(content)[0][b"tree"].decode()


def is_landing(objects: ObjectStore, commit: str, run: str) -> bool:
    """Tell whether weft made a commit to land work of a run."""
    (content,) = objects.read_commits([commit])
    _, trailers = split_trailers(read_commit(content)[1])
    return f"Weft-Run: {run}".encode() in trailers


def _build(landing: LandingCommit, sources: Sequence[bytes], parent: str, committed: int) -> Object:
    read = [read_commit(source) for source in sources]
    headers, message = read[-1]
    encoding = headers.get(b"encoding")
    if landing.message is not None:
        message, encoding = landing.message.encode(errors="surrogateescape"), None
    text, _ = split_trailers(message)
    trailers = [
        *(
            line
            for original in (*(original for _, original in read), message)
            for line in split_trailers(original)[1]
        ),
        *_co_authors([head[b"author"] for head, _ in read]),
        *(f"{key}: {' '.join(value.split())}".encode() for key, value in landing.trailers),
    ]
    paragraphs = (text, b"\n".join(dict.fromkeys(trailers)))
    return make_commit(
        tree=landing.tree,
        parents=(parent, *landing.parents),
        author=headers[b"author"],
        committer=b"%s %d +0000" % (_COMMITTER, committed),
        message=b"\n\n".join(part for part in paragraphs if part) + b"\n",
        encoding=encoding,
    )


def _co_authors(authors: Sequence[bytes]) -> list[bytes]:
    """Return a trailer for each author but the last, who is the author of the commit."""
    people = [author[: author.rindex(b">") + 1] for author in authors]
    return [b"Co-authored-by: " + person for person in people if person != people[-1]]
