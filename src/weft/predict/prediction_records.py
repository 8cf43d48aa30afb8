"""The records of a prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from weft.plan.mentions import Repository
from weft.predict.mirrors import Mirrors


class Clue(StrEnum):
    """The source of a prediction."""

    PATH = "path"  # the text names it
    NAME = "name"  # its path has words of the text
    IDENTIFIER = "identifier"  # it defines a name that the text has
    MESSAGE = "message"  # similar commits changed it
    TOGETHER = "together"  # it changes together with a predicted file
    TEST = "test"  # it mirrors a predicted file
    IMPORT = "import"  # a predicted file imports it


class FileTree:
    """The files of a commit, with the facts of it that predictions use."""

    def __init__(
        self,
        paths: Iterable[str],
        *,
        definitions: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
        imports: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        self.paths: Final = frozenset(paths)
        self.definitions: Final = definitions  # files that define an identifier
        self.imports: Final = imports  # files that a file imports
        self.names: Final = Repository(self.paths)
        self.mirrors: Final = Mirrors(self.paths)
