"""The files of a repository that a file imports, for languages in which an import names a file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

_PYTHON = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+([\w, \t(]*)|import[ \t]+([\w.]+))", re.M
)
_SCRIPT = re.compile(r"""(?:\bfrom|\bimport|\brequire\()[ \t]*["'](\.{1,2}/[\w./-]+)["']""")
_SCRIPTS: Final = ("js", "jsx", "mjs", "ts", "tsx", "vue", "svelte")
_LONGEST: Final = 40_000  # characters of a file that are read: imports stand at its beginning
_MOST: Final = 40


def find_imports(path: str, text: str, paths: Collection[str]) -> tuple[str, ...]:
    """Return the files among `paths` that a file imports."""
    ending = path.rpartition(".")[2]
    text = text[:_LONGEST]
    if ending == "py":
        names = _python_files(path, text)
    elif ending in _SCRIPTS:
        names = _script_files(path, text)
    else:
        return ()
    return tuple(dict.fromkeys(name for name in names if name in paths and name != path))[:_MOST]


def _python_files(path: str, text: str) -> Iterator[str]:
    parts = path.split("/")[:-1]
    roots = ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]
    for match in _PYTHON.finditer(text):
        module = match[1] or match[3]
        dots = len(module) - len(module.lstrip("."))
        base = "/".join(parts[: len(parts) + 1 - dots]) if dots else None
        place = module.strip(".").replace(".", "/")
        for root in roots if base is None else [base]:
            stem = "/".join(part for part in (root, place) if part)
            yield f"{stem}.py"
            for name in re.findall(r"\w+", match[2] or ""):
                yield f"{stem}/{name}.py" if stem else f"{name}.py"


def _script_files(path: str, text: str) -> Iterator[str]:
    for match in _SCRIPT.finditer(text):
        parts = path.split("/")[:-1]
        for part in match[1].split("/"):
            if part == "..":
                parts = parts[:-1]
            elif part != ".":
                parts = [*parts, part]
        stem = "/".join(parts)
        yield stem
        for ending in _SCRIPTS:
            yield f"{stem}.{ending}"
            yield f"{stem}/index.{ending}"
