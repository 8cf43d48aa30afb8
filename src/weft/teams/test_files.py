"""Test files, known by their names. Pure."""

from __future__ import annotations

import re
from typing import Final

_DIRECTORIES: Final = frozenset({"test", "tests", "__tests__", "spec", "specs"})
_NAME: Final = re.compile(
    r"test_.*|.*_test\..*|.*\.test\..*|.*\.spec\..*|.*_spec\..*|.*Tests?\.(?:java|kt|cs|swift)"
)


def is_test_file(path: str) -> bool:
    *directories, name = path.split("/")
    return not _DIRECTORIES.isdisjoint(directories) or _NAME.fullmatch(name) is not None
