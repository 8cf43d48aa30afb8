"""The token a server leaves for the user who started it, in a file that only that user reads."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from weft.errors import InputError, Unauthenticated
from weft.store import Store
from weft.store.tokens import create_token, identify

_MOST: Final = 4096  # bytes of a token


def keep_own_token(store: Store, path: Path, *, now: float) -> None:
    """See that a file holds a valid admin token: what is there if it is one, else a new one."""
    if _is_good(store, path, now):
        return
    _, text = create_token(store, name="weft serve", scopes=("admin",), now=now)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(path, text)
    except OSError as error:
        raise InputError(f"Cannot keep a token in {path}: {error.strerror}.") from error


def _is_good(store: Store, path: Path, now: float) -> bool:
    """A file that others can read is no longer good, whatever is in it."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            text = file.read(_MOST).decode(errors="replace").strip()
    except OSError:
        return False
    try:
        return not mode & 0o077 and "admin" in identify(store, text, now=now).scopes
    except Unauthenticated:
        return False


def _replace(path: Path, text: str) -> None:
    """Whole and readable by its owner alone from the first moment."""
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{text}\n")
    os.replace(made, path)
