"""The files of a repository that a file imports, for languages in which an import names a file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from math import log
from types import MappingProxyType
from typing import Final, NamedTuple

from weft.model import PredictedFile
from weft.paths import is_literal
from weft.plan.mentions import Repository, find_files
from weft.planning.history import History, distinct_words, list_identifiers

_PYTHON = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+([\w, \t(]*)|import[ \t]+([\w.]+))", re.M
)
_SCRIPT = re.compile(r"""(?:\bfrom|\bimport|\brequire\()[ \t]*["'](\.{1,2}/[\w./-]+)["']""")
_SCRIPTS: Final = ("js", "jsx", "mjs", "ts", "tsx", "vue", "svelte")
_LONGEST: Final = 40_000  # characters of a file that are read: imports stand at its beginning
_MOST_FOUND: Final = 40


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
    return tuple(dict.fromkeys(name for name in names if name in paths and name != path))[
        :_MOST_FOUND
    ]


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


_TEST: Final = re.compile(
    r"(?:test_(?P<a>.+)|(?P<b>.+)_(?:test|spec)|(?P<c>.+)\.(?:test|spec)|(?P<d>.+?)(?:Tests?|Spec))"
)
_NEAREST: Final = 3  # mirrors of a file


class Mirrors:
    """The tests of a tree and the sources that they mirror."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._tests: dict[str, list[str]] = {}
        self._sources: dict[str, list[str]] = {}
        for path in paths:
            tested = _tested(path)
            if tested is None:
                self._sources.setdefault(_stem(path), []).append(path)
            else:
                self._tests.setdefault(tested, []).append(path)

    def list_tests(self, source: str) -> tuple[str, ...]:
        """List the tests that mirror a source, nearest first."""
        if is_test(source):
            return ()
        return _nearest(source, self._tests.get(_stem(source), ()))

    def list_sources(self, test: str) -> tuple[str, ...]:
        """List the sources that a test mirrors, nearest first."""
        tested = _tested(test)
        return () if tested is None else _nearest(test, self._sources.get(tested, ()))


def is_test(path: str) -> bool:
    return _tested(path) is not None


def _tested(path: str) -> str | None:
    match = _TEST.fullmatch(_stem(path))
    return next((part for part in match.groups() if part), None) if match else None


def _stem(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[0]


def _nearest(path: str, candidates: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of the same extension that share most directories with a path."""
    own = set(path.split("/")[:-1])
    ending = path.rpartition(".")[2]
    same = [neighbour for neighbour in candidates if neighbour.rpartition(".")[2] == ending]
    shared = {neighbour: len(own & set(neighbour.split("/")[:-1])) for neighbour in same}
    best = max(shared.values(), default=0)
    return tuple(sorted(neighbour for neighbour in same if shared[neighbour] == best))[:_NEAREST]


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


_NAMED: Final = 0.9  # the text has its path
_DEFINES: Final = 0.5  # it is the only file that defines an identifier of the text
_WORDED: Final = 0.6  # every word of its path is in the text
_MIRRORED: Final = 0.5  # a test, where its source is changed
_IMPORTED: Final = 0.1
_MOST_DEFINERS: Final = 3  # a name with more definitions says little
_MOST_SIMILAR: Final = 25  # commits
_MOST_READ: Final = 1_000  # commits or files of a word that are looked at
_FAINT: Final = 0.01  # a smaller share of similar commits is no hint
_DOUBT: Final = 0.2  # weight of similar commits of which half is believed
_TITLE: Final = 2.0  # weight of a word of the first line, where file names are compared


class Hint(NamedTuple):
    """A reason to expect that a task changes a file."""

    path: str
    clue: Clue
    share: float  # probability
    reason: str


def read_text(
    text: str, history: History, tree: FileTree, before: int | None = None
) -> Iterator[Hint]:
    """Yield the files that a text hints at; `before` hides the commits from that number on."""
    for path in find_named(text, tree):
        yield Hint(path, Clue.PATH, _NAMED, "the text names it")
    for name in list_identifiers(text):
        files = tree.definitions.get(name, ())
        if len(files) <= _MOST_DEFINERS:
            for path in files:
                yield Hint(path, Clue.IDENTIFIER, _DEFINES / len(files), f"it defines {name}")
    yield from _compare_names(text, history, tree)
    yield from _Similar(text, history, before).hints(tree)


def find_named(text: str, tree: FileTree) -> tuple[str, ...]:
    """Return the files that a text names by path or by a unique file name."""
    return tuple(
        path
        for path in find_files(text, tree.names)
        if is_literal(path) and _is_file_name(path.rpartition("/")[2])
    )


def list_companions(
    path: str, history: History, tree: FileTree, before: int | None = None
) -> Iterator[Hint]:
    """Yield the files that go with a file, each with its probability where that file changes."""
    for neighbour in history.list_together(path, before=before):
        if neighbour.path in tree.paths:
            reason = f"changed in {neighbour.count} of {neighbour.of} commits that change {path}"
            yield Hint(neighbour.path, Clue.TOGETHER, neighbour.weight, reason)
    for test in tree.mirrors.list_tests(path):
        yield Hint(test, Clue.TEST, _MIRRORED, f"the test of {path}")
    for source in tree.mirrors.list_sources(path):
        yield Hint(source, Clue.TEST, _MIRRORED, f"{path} tests it")
    for imported in tree.imports.get(path, ()):
        yield Hint(imported, Clue.IMPORT, _IMPORTED, f"{path} imports it")


def _is_file_name(name: str) -> bool:
    """Tell whether a word looks like the name of a file: `Makefile`, `run.py`, but not `run`."""
    return "." in name or name[:1].isupper()


def _compare_names(text: str, history: History, tree: FileTree) -> Iterator[Hint]:
    """Yield the files whose paths have words of the text; rare words count more."""
    words = distinct_words(text)
    title = distinct_words(text.strip().partition("\n")[0])
    matches: dict[int, dict[str, float]] = {}
    for word in words:
        files = history.named_with(word)[:_MOST_READ]
        value = log(1 + len(history.paths) / len(files)) if files else 0.0
        for file in files:
            matches.setdefault(file, {})[word] = value * (_TITLE if word in title else 1.0)
    most = log(1 + len(history.paths))
    for file, values in matches.items():
        path = history.paths[file]
        if path in tree.paths:
            covered = sum(values.values()) / (most * max(2, len(distinct_words(path)) - 1))
            best = sorted(values, key=lambda word: -values[word])[:3]
            reason = f"its path has {' and '.join(words[word] for word in best)}"
            yield Hint(path, Clue.NAME, _WORDED * min(1.0, covered) ** 2, reason)


class _Similar:
    """The commits whose messages are similar to a text."""

    def __init__(self, text: str, history: History, before: int | None) -> None:
        self._history = history
        self._before = before
        self._words = distinct_words(text)
        self._mentions: Mapping[str, Sequence[int]] = {
            word: commits
            for word in self._words
            if (commits := history.mentioning(word, before=before))
        }
        size = history.size if before is None else before
        self._values = {
            word: log(1 + size / len(commits)) for word, commits in self._mentions.items()
        }

    def hints(self, tree: FileTree) -> Iterator[Hint]:
        weights = self._weigh()
        shares: dict[int, float] = {}
        for commit, weight in weights.items():
            for file in self._history.files_of(commit):
                shares[file] = shares.get(file, 0.0) + weight
        total = sum(weights.values()) + _DOUBT
        for file, share in shares.items():
            path = self._history.paths[file]
            if share / total >= _FAINT and path in tree.paths:
                yield Hint(path, Clue.MESSAGE, share / total, self._reason(file))

    def _weigh(self) -> dict[int, float]:
        """Weigh the most similar commits: by their words that the text has, and by recency."""
        likeness: dict[int, float] = {}
        for word, value in self._values.items():
            for commit in self._mentions[word][-_MOST_READ:]:
                likeness[commit] = likeness.get(commit, 0.0) + value
        most = sum(self._values.values())
        weights = {
            commit: (value / most) ** 2 * self._history.weigh(commit, before=self._before)
            for commit, value in likeness.items()
        }
        best = sorted(weights, key=lambda commit: (-weights[commit], -commit))[:_MOST_SIMILAR]
        return {commit: weights[commit] for commit in best}

    def _reason(self, file: int) -> str:
        """Return the reason with the word that speaks most for a file."""
        changed = set(self._history.changing(file, before=self._before))
        best, reason = 0.0, ""
        for word, commits in self._mentions.items():
            both = len(changed.intersection(commits))
            worth = self._values[word] * both / (len(commits) + 1)
            if worth > best:
                best = worth
                of = "1 commit" if len(commits) == 1 else f"{len(commits)} commits"
                mention = "mentions" if len(commits) == 1 else "mention"
                reason = f"changed in {both} of {of} that {mention} {self._words[word]}"
        return reason


MOST_PREDICTED: Final = 20
LEAST_PROBABILITY: Final = 0.02

_SEEDS: Final = 8  # files that bring their companions
_MOST_SURE: Final = 0.95

USUAL_WEIGHTS: Final[Mapping[Clue, float]] = MappingProxyType(dict.fromkeys(Clue, 1.0))
"""Weights of the clues in a repository without records."""


def predict(
    text: str,
    history: History,
    tree: FileTree,
    *,
    weights: Mapping[Clue, float] = USUAL_WEIGHTS,
    before: int | None = None,
) -> tuple[PredictedFile, ...]:
    """Predict the files that a task changes, most probable first; hubs are marked.

    `before` hides the commits from that number on, for measurements.
    """
    case = _Case(weights)
    for hint in read_text(text, history, tree, before):
        case.add(hint)
    for path, probability in case.list_best()[:_SEEDS]:
        if not history.is_hub(path, before=before):
            for hint in list_companions(path, history, tree, before):
                case.add_companion(hint, probability)
    return tuple(
        case.describe(path, probability, may_touch=history.is_hub(path, before=before))
        for path, probability in case.list_best()[:MOST_PREDICTED]
        if probability >= LEAST_PROBABILITY
    )


class _Case:
    """The hints about each file, collected while a text is examined."""

    def __init__(self, weights: Mapping[Clue, float]) -> None:
        self._weights = weights
        self._shares: dict[str, dict[Clue, float]] = {}
        self._reasons: dict[str, tuple[float, str]] = {}  # of the text, with their weights
        self._companions: dict[str, str] = {}  # reasons of other files

    def add(self, hint: Hint) -> None:
        """Add a hint of the text; of a single clue only the strongest counts."""
        shares = self._shares.setdefault(hint.path, {})
        shares[hint.clue] = max(hint.share, shares.get(hint.clue, 0.0))
        weight = hint.share * self._weights[hint.clue]
        if weight > self._reasons.get(hint.path, (0.0, ""))[0]:
            self._reasons[hint.path] = (weight, hint.reason)

    def add_companion(self, hint: Hint, probability: float) -> None:
        """Add a hint at a file that changes together with a predicted file of this probability.

        A reason from the text is kept, since it says more than "changes with its test".
        """
        shares = self._shares.setdefault(hint.path, {})
        share = hint.share * probability
        if share > shares.get(hint.clue, 0.0):
            shares[hint.clue] = share
            self._companions[hint.path] = hint.reason

    def list_best(self) -> list[tuple[str, float]]:
        listed = [(path, self._probability(shares)) for path, shares in self._shares.items()]
        return sorted(listed, key=lambda pair: (-pair[1], pair[0]))

    def _probability(self, shares: Mapping[Clue, float]) -> float:
        missed = 1.0
        for clue, share in shares.items():
            missed *= 1.0 - min(_MOST_SURE, share * self._weights[clue])
        return 1.0 - missed

    def describe(self, path: str, probability: float, *, may_touch: bool) -> PredictedFile:
        return PredictedFile(
            path=path,
            probability=round(probability, 3),
            reason=self._reasons[path][1] if path in self._reasons else self._companions[path],
            clues={clue: round(share, 3) for clue, share in self._shares[path].items()},
            may_touch=may_touch,
        )
