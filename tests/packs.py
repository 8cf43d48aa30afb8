"""Trees and packs as bytes, also such as no git would make."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Collection

from weft.git.objects import Object, TreeEntry

_KINDS = {"commit": 1, "tree": 2, "blob": 3}


def write_entry(name: bytes, entry: TreeEntry) -> bytes:
    return b"%s %s\0%s" % (entry.mode.encode(), name, bytes.fromhex(entry.id))


def make_pack(objects: Collection[Object]) -> bytes:
    """Make a pack of whole objects, as git reads it from its standard input."""
    parts = [b"PACK" + (2).to_bytes(4, "big") + len(objects).to_bytes(4, "big")]
    for object in objects:
        parts += (_header(object), zlib.compress(object.content, 1))
    body = b"".join(parts)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _header(object: Object) -> bytes:
    """Write kind and size: four bits of the size first, then seven at a time."""
    size = len(object.content)
    current = _KINDS[object.kind] << 4 | size & 15
    size >>= 4
    header = bytearray()
    while size:
        header.append(current | 128)
        current = size & 127
        size >>= 7
    header.append(current)
    return bytes(header)
