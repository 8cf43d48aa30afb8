"""Git's objects as bytes: trees, commits, and a pack that carries them. Pure.

Object ids are computed here, so a whole chain of trees and commits is known before anything
is written, and written by one program. Paths and names are bytes: git knows no encoding.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

TREE: Final = "40000"
REGULAR: Final = frozenset({"100644", "100755"})
SYMLINK: Final = "120000"
SUBMODULE: Final = "160000"


class TreeEntry(NamedTuple):
    """What a directory holds under a name."""

    mode: str  # as trees write it: without leading zeros
    id: str


_ENTRY: Final = {
    size: re.compile(rb"([0-7]+ ([^\0]+)\0.{%d})" % size, re.DOTALL) for size in (20, 32)
}
Entries = Mapping[bytes, bytes]
"""A directory by name, each entry as its tree object spells it, in that object's order."""


class Object(NamedTuple):
    kind: str  # commit, tree, blob
    content: bytes


def identify(one: Object, like: str) -> str:
    """The object's id, by the hash function that made the id `like`."""
    digest = hashlib.sha256 if len(like) == 64 else _sha1
    return digest(b"%s %d\0" % (one.kind.encode(), len(one.content)) + one.content).hexdigest()


def tree(entries: Entries) -> Object:
    return Object("tree", b"".join(entries.values()))


def read_tree(content: bytes, like: str) -> dict[bytes, bytes]:
    pattern = _ENTRY[len(like) // 2]
    return {name: whole for whole, name in pattern.findall(content)}


def in_order(entries: Entries) -> dict[bytes, bytes]:
    """As git sorts: directories as if their names ended in a slash."""
    return dict(sorted(entries.items(), key=lambda one: one[0] + b"/" * is_tree(one[1])))


def spell(name: bytes, entry: TreeEntry) -> bytes:
    return b"%s %s\0%s" % (entry.mode.encode(), name, bytes.fromhex(entry.id))


def read_entry(name: bytes, whole: bytes) -> TreeEntry:
    mode = whole[: whole.index(b" ")]
    return TreeEntry(mode.decode(), whole[len(mode) + len(name) + 2 :].hex())


def is_tree(whole: bytes) -> bool:
    return whole.startswith(b"40000 ")


def commit(
    *,
    tree: str,
    parents: Sequence[str],
    author: bytes,
    committer: bytes,
    message: bytes,
    encoding: bytes | None = None,
) -> Object:
    """A commit; author and committer carry their dates, as the object does."""
    lines = [b"tree " + tree.encode()]
    lines += [b"parent " + parent.encode() for parent in parents]
    lines += [b"author " + author, b"committer " + committer]
    if encoding is not None:
        lines.append(b"encoding " + encoding)
    return Object("commit", b"\n".join(lines) + b"\n\n" + message)


def read_commit(content: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """The first value of each header, and the message."""
    head, _, message = content.partition(b"\n\n")
    headers: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        name, _, value = line.partition(b" ")
        if name:  # otherwise the continuation of a signature
            headers.setdefault(name, value)
    return headers, message


def pack(objects: Iterable[Object], like: str) -> bytes:
    """A pack of whole objects, as git reads it from its standard input."""
    held = list(objects)
    parts = [b"PACK" + (2).to_bytes(4, "big") + len(held).to_bytes(4, "big")]
    for one in held:
        parts.append(_pack_header(one))
        parts.append(zlib.compress(one.content, 1))
    body = b"".join(parts)
    return body + (hashlib.sha256 if len(like) == 64 else _sha1)(body).digest()


_PACK_KINDS: Final = {"commit": 1, "tree": 2, "blob": 3}


def _pack_header(one: Object) -> bytes:
    """Kind and size: four bits of the size first, then seven at a time."""
    size = len(one.content)
    current = _PACK_KINDS[one.kind] << 4 | size & 15
    size >>= 4
    header = bytearray()
    while size:
        header.append(current | 128)
        current = size & 127
        size >>= 7
    header.append(current)
    return bytes(header)


def _sha1(data: bytes) -> hashlib._Hash:
    return hashlib.sha1(data, usedforsecurity=False)
