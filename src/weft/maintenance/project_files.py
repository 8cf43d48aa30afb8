"""`weft init`: write `weft.toml` and agent files into a repository, never overwriting a file."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from msgspec import Struct

from weft.config import FILE
from weft.errors import InputError


class WrittenFile(Struct, frozen=True, kw_only=True):
    path: str  # relative to the repository's root
    created: bool  # False: it was there and was left alone


def init(root: Path) -> list[WrittenFile]:
    return [_write(root, name, text) for name, text in _files()]


def _files() -> Iterator[tuple[str, str]]:
    templates = resources.files(__package__)
    yield FILE, (templates / "weft.toml").read_text(encoding="utf-8")
    agents = (templates / "agents").iterdir()
    for file in sorted(agents, key=lambda file: file.name):
        if file.name.endswith(".md"):
            yield f".weft/agents/{file.name}", file.read_text(encoding="utf-8")


def _write(root: Path, name: str, text: str) -> WrittenFile:
    path = root / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.parent.resolve().is_relative_to(root.resolve()):
            raise InputError(f"{path.parent} is a link that leads out of the repository.")
        # Exclusive creation: neither a file nor a link that is there is ever written to.
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        if path.parent.is_dir():
            return WrittenFile(path=name, created=False)
        raise InputError(f"{path.parent} is in the way: it is not a directory.") from error
    except NotADirectoryError as error:
        raise InputError(f"{path.parent} is in the way: it is not a directory.") from error
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}.") from error
    return WrittenFile(path=name, created=True)
