"""The words by which messages and tasks are compared: parts of identifiers, without endings."""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, field

_LONGEST_TEXT: Final = 4_000  # characters of a message or a task that are read
_MOST_WORDS: Final = 60  # distinct words of a text
_LONGEST_WORD: Final = 30

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_IDENTIFIER = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]{3,60}\b")
_CAMEL = re.compile(r"[a-z0-9][A-Z]")

_COMMON: Final = frozenset(
    """
    a about add added adds after all also an and any are as at be because been before both but
    by can change changed changes do does each ensure every first for from get has have if
    implement in instead into is it its let make makes more must new no not now of on once one
    only or other our out over per please remove same set should so some such support task tasks
    than that the their them then there these they this those to too under update updated use
    used uses using via was were what when where which while who will with within without work
    would you your signed off co authored coauthored https www com org github
    """.split()  # noqa: SIM905 - a list literal takes a hundred lines
)


def distinct_words(text: str) -> dict[str, str]:
    """Map each telling word of a text, without its ending, to its first spelling there."""
    words: dict[str, str] = {}
    for match in _PART.finditer(text[:_LONGEST_TEXT]):
        spelling = match[0].lower()
        if len(spelling) < 2 or len(spelling) > _LONGEST_WORD or spelling in _COMMON:
            continue
        words.setdefault(stem(spelling), spelling)
        if len(words) == _MOST_WORDS:
            break
    return words


def stem(word: str) -> str:
    """Cut a usual English ending off, so that *parses*, *parsed* and *parsing* are the same."""
    for ending in ("ing", "ers", "er", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


def list_identifiers(text: str) -> list[str]:
    """List the words of a text that can only be names in code: snake_case, camelCase."""
    names: dict[str, None] = {}
    for match in _IDENTIFIER.finditer(text[:_LONGEST_TEXT]):
        name = match[0]
        if "_" in name.strip("_") or _CAMEL.search(name):
            names[name.strip()] = None
    return list(names)[:_MOST_WORDS]


MOST_FILES: Final = 30
"""A commit of more files does not count."""

LEAST_TOGETHER: Final = 3
"""Files that changed together less often are not known to belong together."""

HUB_SHARE: Final = 0.1
"""A file in a larger share of commits is a hub: a task may touch it and never claims it."""

LEAST_COMMITS: Final = 20
"""Below so many commits no file is called a hub."""

_HALF_LIFE: Final = 400.0  # commits after which a commit counts half
_LONGEST_PATH: Final = 1_000
_RECENT: Final = 200  # commits in which a new hub shows
_MOST_READ: Final = 500  # commits of a single file that are looked at, the latest
_NUMBER: Final = struct.Struct("=I")


class CoChange(Struct, frozen=True, kw_only=True):
    """A file that changes together with another."""

    path: str
    count: int  # commits that changed both
    of: int  # commits that changed the first file
    weight: float  # share of those commits, in which recent commits count more


class History(Struct, kw_only=True):
    """Commits that were added, oldest first; equal if the same commits were added."""

    paths: list[str] = field(default_factory=list)  # of each file, under its newest name
    commits: list[bytes] = field(default_factory=list)  # the files of each commit
    words: dict[str, bytearray] = field(default_factory=dict)  # commits that mention a word
    touched: list[bytearray] = field(default_factory=list)  # commits that changed each file
    named: dict[str, bytearray] = field(default_factory=dict)  # files with a word in their path
    numbers: dict[str, int] = field(default_factory=dict)  # of files, also by their old names

    @property
    def size(self) -> int:
        """The number of commits that count."""
        return len(self.commits)

    def add(
        self, message: str, files: Sequence[str], renames: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Add the next commit; names that are no text are left out."""
        for old, new in renames:
            self._rename(old, new)
        kept = [path for path in dict.fromkeys(files) if _is_kept(path)]
        if not kept or len(files) > MOST_FILES:
            return
        commit = len(self.commits)
        numbers = sorted({self._number(path) for path in kept})
        self.commits.append(b"".join(map(_NUMBER.pack, numbers)))
        for number in numbers:
            self.touched[number] += _NUMBER.pack(commit)
        for word in distinct_words(message):
            self.words.setdefault(word, bytearray()).extend(_NUMBER.pack(commit))

    def files_of(self, commit: int) -> Sequence[int]:
        return _unpack(self.commits[commit])

    def mentioning(self, word: str, *, before: int | None = None) -> Sequence[int]:
        """List the commits whose message has a word (see `distinct_words`)."""
        return _cut(_unpack(self.words.get(word, b"")), before)

    def changing(self, file: int, *, before: int | None = None) -> Sequence[int]:
        """List the commits that changed a file."""
        return _cut(_unpack(self.touched[file]), before)

    def named_with(self, word: str) -> Sequence[int]:
        """List the files with a word in their path."""
        return _unpack(self.named.get(word, b""))

    def find(self, path: str) -> int | None:
        """Return the number of a file by its newest name or an earlier name."""
        return self.numbers.get(path)

    def share(self, path: str) -> float:
        """Return the share of all commits that changed a file."""
        file = self.numbers.get(path)
        return len(self.touched[file]) / _NUMBER.size / self.size if file is not None else 0.0

    def is_hub(self, path: str, *, before: int | None = None) -> bool:
        """Tell whether more than a tenth of all commits, or of the last 200, change a file."""
        file, size = self.numbers.get(path), self.size if before is None else before
        if file is None or size < LEAST_COMMITS:
            return False
        commits = self.changing(file, before=before)
        first = max(0, size - _RECENT)
        recent = len(commits) - bisect_left(commits, first)
        return len(commits) > HUB_SHARE * size or recent > HUB_SHARE * (size - first)

    def list_hubs(self) -> tuple[str, ...]:
        """List the files that many commits change (see `is_hub`), busiest first."""
        busiest = sorted(range(len(self.paths)), key=lambda file: -len(self.touched[file]))
        return tuple(self.paths[file] for file in busiest if self.is_hub(self.paths[file]))

    def weigh(self, commit: int, *, before: int | None = None) -> float:
        """Return the weight of a commit: recent commits count more."""
        size = self.size if before is None else before
        return float(0.5 ** ((size - commit) / _HALF_LIFE))

    def list_together(self, path: str, *, before: int | None = None) -> tuple[CoChange, ...]:
        """List the files that changed together with a file at least three times, closest first."""
        file = self.numbers.get(path)
        if file is None:
            return ()
        commits = self.changing(file, before=before)[-_MOST_READ:]
        counts: Counter[int] = Counter()
        weights: dict[int, float] = {}
        total = 0.0
        for commit in commits:
            weight = self.weigh(commit, before=before)
            total += weight
            for neighbour in self.files_of(commit):
                counts[neighbour] += 1
                weights[neighbour] = weights.get(neighbour, 0.0) + weight
        close = [
            CoChange(
                path=self.paths[neighbour],
                count=count,
                of=len(commits),
                weight=weights[neighbour] / total,
            )
            for neighbour, count in counts.items()
            if neighbour != file and count >= LEAST_TOGETHER
        ]
        return tuple(sorted(close, key=lambda neighbour: (-neighbour.weight, neighbour.path)))

    def bind(self, first: str, second: str) -> float:
        """Return how closely two files belong together, from 0 to 1.

        The share of the commits of the less busy file that changed both; 0 below three commits.
        """
        a, b = self.numbers.get(first), self.numbers.get(second)
        if a is None or b is None:
            return 0.0
        ours, theirs = set(self.changing(a)), set(self.changing(b))
        both = len(ours & theirs)
        return both / min(len(ours), len(theirs)) if both >= LEAST_TOGETHER else 0.0

    def _number(self, path: str) -> int:
        number = self.numbers.get(path)
        if number is None:
            number = self.numbers[path] = len(self.paths)
            self.paths.append(path)
            self.touched.append(bytearray())
            self._name(number, path)
        return number

    def _name(self, number: int, path: str) -> None:
        for word in distinct_words(path):
            self.named.setdefault(word, bytearray()).extend(_NUMBER.pack(number))

    def _rename(self, old: str, new: str) -> None:
        number = self.numbers.get(old)
        if number is not None and new not in self.numbers and _is_kept(new):
            self.numbers[new] = number
            self.paths[number] = new
            self._name(number, new)


def group_files(
    history: History, files: Sequence[str], *, closeness: float = 0.25
) -> tuple[tuple[str, ...], ...]:
    """Divide files into groups that rarely change together.

    Two files are in the same group if a chain of files connects them in which each changes with the
    next in at least `closeness` of its commits. Hubs connect no files; each is a group of its own.
    """
    left = dict.fromkeys(files)
    hubs = {path for path in left if history.is_hub(path)}
    groups: list[tuple[str, ...]] = []
    while left:
        reached = [next(iter(left))]
        del left[reached[0]]
        for path in reached:
            if path in hubs:
                continue
            near = [
                neighbour
                for neighbour in left
                if neighbour not in hubs and history.bind(path, neighbour) >= closeness
            ]
            reached += near
            for neighbour in near:
                del left[neighbour]
        groups.append(tuple(reached))
    return tuple(groups)


def _is_kept(path: str) -> bool:
    return (
        0 < len(path) <= _LONGEST_PATH
        and path.isprintable()
        and not any("\ud800" <= char <= "\udfff" for char in path)
    )


def _unpack(packed: bytes | bytearray) -> Sequence[int]:
    return memoryview(packed).cast("I").tolist()


def _cut(commits: Sequence[int], before: int | None) -> Sequence[int]:
    return commits if before is None else commits[: bisect_left(commits, before)]
