"""Directories of dependencies that stay in a workspace from one attempt to the next.

They stay while the lock files beside them are unchanged. An agent can change their content, so
checks never get them: a check starts with the result of its own set-up.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from weft.workspace.inspection import read_file

_LOCKS: Final = (
    *("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock"),
    *("bun.lockb", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "requirements.txt"),
    *("Cargo.lock", "go.sum", "Gemfile.lock", "composer.lock", "mix.lock", "package.json"),
    *("pyproject.toml", "deno.lock", "gradle.lockfile"),
)
_LARGEST: Final = 64 << 20  # bytes of a lock file


def lock_digests(tree: Path, names: Iterable[str]) -> dict[str, str]:
    """Return a digest of the lock files beside each of these directories that exists."""
    return {
        name: _digest((tree / name).parent)
        for name in names
        if (tree / name).is_dir() and not _leads_away(tree, name)
    }


def unchanged(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in after.items() if before.get(name) == digest}


def _leads_away(tree: Path, name: str) -> bool:
    """Tell whether a directory, or a directory above it, is a link."""
    return os.path.realpath(tree / name) != os.path.join(os.path.realpath(tree), name)


def _digest(directory: Path) -> str:
    digest = hashlib.sha256()
    for name in _LOCKS:
        content = read_file(directory / name, _LARGEST)
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
