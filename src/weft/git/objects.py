"""git's objects as bytes: commits, and the names in trees. Pure.

Object ids are computed here, so a chain of commits is known before it is written. Paths and names
are bytes: git knows no encoding.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

REGULAR: Final = frozenset({"100644", "100755"})
SYMLINK: Final = "120000"
SUBMODULE: Final = "160000"


class TreeEntry(NamedTuple):
    mode: str  # as trees write it: without leading zeros
    id: str


_ENTRY: Final = {
    size: re.compile(rb"[0-7]+ ([^\0]+)\0.{%d}" % size, re.DOTALL) for size in (20, 32)
}
_TRAILER: Final = re.compile(rb"[A-Za-z0-9-]+: .*")


class Object(NamedTuple):
    kind: str  # commit, tree, blob
    content: bytes


def frame(object: Object) -> bytes:
    """Return an object as git hashes and stores it."""
    return b"%s %d\0%s" % (object.kind.encode(), len(object.content), object.content)


def identify(object: Object, like: str) -> str:
    """Return an object's id, by the hash function that made the id `like`."""
    kind = "sha256" if len(like) == 64 else "sha1"
    return hashlib.new(kind, frame(object), usedforsecurity=False).hexdigest()


def empty_tree(like: str) -> str:
    return identify(Object("tree", b""), like)


def list_names(content: bytes, like: str) -> list[bytes]:
    """List the names of a directory from its tree object."""
    return _ENTRY[len(like) // 2].findall(content)


def make_commit(
    *,
    tree: str,
    parents: Sequence[str],
    author: bytes,
    committer: bytes,
    message: bytes,
    encoding: bytes | None = None,
) -> Object:
    """Make a commit; author and committer end with their dates."""
    lines = [b"tree " + tree.encode()]
    lines += [b"parent " + parent.encode() for parent in parents]
    lines += [b"author " + author, b"committer " + committer]
    if encoding is not None:
        lines.append(b"encoding " + encoding)
    return Object("commit", b"\n".join(lines) + b"\n\n" + message)


def read_commit(content: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """Return the first value of each header, and the message."""
    head, _, message = content.partition(b"\n\n")
    headers: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        name, _, value = line.partition(b" ")
        if name:  # an empty name continues a signature
            headers.setdefault(name, value)
    return headers, message


def split_trailers(message: bytes) -> tuple[bytes, list[bytes]]:
    """Split a message into its text and the `Key: value` lines of its last paragraph.

    A subject that looks like a trailer is text.
    """
    text = message.strip(b"\n")
    start = text.rfind(b"\n\n") + 2 if b"\n\n" in text else len(text)
    lines = text[start:].split(b"\n")
    if start < len(text) and all(map(_TRAILER.fullmatch, lines)):
        return text[:start].rstrip(b"\n"), lines
    return text, []
