"""The token that a server leaves for its user, in a file that only this user reads."""

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
    """Keep a valid admin token in a file: the present token if it is valid, else a new token."""
    if _is_good(store, path, now):
        return
    _, text = create_token(store, name="weft serve", scopes=("admin",), now=now)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(path, text)
    except OSError as error:
        raise InputError(f"Cannot keep a token in {path}: {error.strerror}.") from error


def _is_good(store: Store, path: Path, now: float) -> bool:
    """Return the token in the file; None if other users can read the file."""
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
