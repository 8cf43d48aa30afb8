"""All that is the user's in a repository, and that weft must leave alone."""

from __future__ import annotations

from pathlib import Path

from repositories import git

_OURS = ("refs/weft/", "refs/heads/weft/", "refs/heads/weft-work/")


def fingerprint(root: Path) -> dict[str, bytes]:
    """Read the files, index, references, settings and hooks of a checkout."""
    directory = root / ".git"
    files = [path for path in root.rglob("*") if path.is_file() and directory not in path.parents]
    files += [path for path in (directory / "hooks").rglob("*") if path.is_file()]
    files += [directory / "config", directory / "HEAD", *(directory / "info").glob("*")]
    refs = [
        line
        for line in git(root, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        if not line.startswith(_OURS)
    ]
    return {
        "references": "\n".join(refs).encode(),
        "index": git(root, "ls-files", "--stage").encode(),
        **{str(path): path.read_bytes() for path in files},
    }
