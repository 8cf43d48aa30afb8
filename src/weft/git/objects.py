"""git's objects as bytes: trees, commits, and packs of them. Pure.

Object ids are computed here, so a whole chain of trees and commits is known before it is written,
by a single command. Paths and names are bytes: git knows no encoding.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

TREE: Final = "40000"
REGULAR: Final = frozenset({"100644", "100755"})
SYMLINK: Final = "120000"
SUBMODULE: Final = "160000"


class TreeEntry(NamedTuple):
    mode: str  # as trees write it: without leading zeros
    id: str


_ENTRY: Final = {
    size: re.compile(rb"([0-7]+ ([^\0]+)\0.{%d})" % size, re.DOTALL) for size in (20, 32)
}
Entries = Mapping[bytes, bytes]
"""A directory's entries by name, as bytes of its tree object and in its order."""
_TRAILER: Final = re.compile(rb"[A-Za-z0-9-]+: .*")


class Object(NamedTuple):
    kind: str  # commit, tree, blob
    content: bytes


def identify(object: Object, like: str) -> str:
    """Return an object's id, by the hash function that made the id `like`."""
    head = b"%s %d\0" % (object.kind.encode(), len(object.content))
    return _hash(head + object.content, like).hexdigest()


def empty_tree(like: str) -> str:
    return identify(Object("tree", b""), like)


def make_tree(entries: Entries) -> Object:
    return Object("tree", b"".join(entries.values()))


def read_tree(content: bytes, like: str) -> dict[bytes, bytes]:
    pattern = _ENTRY[len(like) // 2]
    return {name: whole for whole, name in pattern.findall(content)}


def sort_entries(entries: Entries) -> dict[bytes, bytes]:
    """Sort like git: directories as if their names ended in a slash."""
    return dict(sorted(entries.items(), key=lambda pair: pair[0] + b"/" * is_tree(pair[1])))


def write_entry(name: bytes, entry: TreeEntry) -> bytes:
    return b"%s %s\0%s" % (entry.mode.encode(), name, bytes.fromhex(entry.id))


def read_entry(name: bytes, whole: bytes) -> TreeEntry:
    mode = whole[: whole.index(b" ")]
    return TreeEntry(mode.decode(), whole[len(mode) + len(name) + 2 :].hex())


def is_tree(whole: bytes) -> bool:
    return whole.startswith(b"40000 ")


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


def make_pack(objects: Collection[Object], like: str) -> bytes:
    """Make a pack of whole objects, as git reads it from its standard input."""
    parts = [b"PACK" + (2).to_bytes(4, "big") + len(objects).to_bytes(4, "big")]
    for object in objects:
        parts += (_pack_header(object), zlib.compress(object.content, 1))
    body = b"".join(parts)
    return body + _hash(body, like).digest()


_PACK_KINDS: Final = {"commit": 1, "tree": 2, "blob": 3}


def _pack_header(object: Object) -> bytes:
    """Write kind and size: four bits of the size first, then seven at a time."""
    size = len(object.content)
    current = _PACK_KINDS[object.kind] << 4 | size & 15
    size >>= 4
    header = bytearray()
    while size:
        header.append(current | 128)
        current = size & 127
        size >>= 7
    header.append(current)
    return bytes(header)


def _hash(data: bytes, like: str) -> hashlib._Hash:
    return hashlib.new("sha256" if len(like) == 64 else "sha1", data, usedforsecurity=False)
