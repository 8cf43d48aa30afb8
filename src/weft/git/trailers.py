"""Trailers of a commit message, as git understands them. Pure: the bytes are given."""

from __future__ import annotations

import re
from typing import Final

_TRAILER: Final = re.compile(rb"[A-Za-z0-9-]+: .*")


def split_trailers(message: bytes) -> tuple[bytes, list[bytes]]:
    """A message without its closing paragraph of `Key: value` lines, and those lines.

    A subject is no trailer, whatever it looks like.
    """
    text = message.strip(b"\n")
    start = text.rfind(b"\n\n") + 2 if b"\n\n" in text else len(text)
    lines = text[start:].split(b"\n")
    if start < len(text) and all(map(_TRAILER.fullmatch, lines)):
        return text[:start].rstrip(b"\n"), lines
    return text, []
