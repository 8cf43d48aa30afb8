"""The score of predictions: how many of the changed files were predicted.

A repository is scored on its own last commits, by time: the prediction for a commit knows only the
commits before it. Files that a commit created and hubs do not count: no task can claim the former,
and the latter are never claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft.model import PredictedFile
from weft.planning.history import History
from weft.planning.predictor import USUAL_WEIGHTS, Clue, FileTree, find_named, predict

AT: Final = 5
"""Recall and precision count this many predicted files."""

ENOUGH: Final = 0.5
"""Recall from which predictions are used."""

LEAST_SCORED: Final = 20
"""A score of fewer commits says nothing."""

_PRIOR: Final = 10.0  # predicted files by which the usual weight of a clue counts


class PastChange(Struct, frozen=True, kw_only=True):
    """A commit of the history that is to be predicted."""

    number: int  # in the history
    message: str
    files: tuple[str, ...]  # under their newest names


class ClueRecord(Struct, frozen=True, kw_only=True):
    """The predictions that a clue took part in."""

    expected: float = 0.0  # sum of the probabilities that it gave
    hits: int = 0  # predicted files that were changed

    def plus(self, record: ClueRecord) -> ClueRecord:
        return ClueRecord(expected=self.expected + record.expected, hits=self.hits + record.hits)


class PredictionCase(Struct, frozen=True, kw_only=True):
    """A prediction and the files that were changed after all."""

    predicted: tuple[PredictedFile, ...]  # without hubs
    changed: frozenset[str]  # not empty
    named: tuple[str, ...] = ()  # files that the text names


class Score(Struct, frozen=True, kw_only=True):
    cases: int
    recall: float  # share of the changed files among the first five predicted
    precision: float  # share of changed files among the first five predicted
    all_files: float  # share of the cases in which every changed file was predicted
    named_recall: float  # recall of the files that the text names: the baseline
    clues: Mapping[Clue, ClueRecord]

    @property
    def is_enough(self) -> bool:
        """True if predictions may decide about claims."""
        return self.cases >= LEAST_SCORED and self.recall >= ENOUGH


def replay(
    history: History, tree: FileTree, changes: Iterable[PastChange]
) -> Iterator[PredictionCase]:
    """Predict past commits, oldest first, each from the commits before it.

    `tree` is the tree before the first of them; the files of each commit join it. The weights of
    the clues are learned from commit to commit, as they are at work.
    """
    paths = set(tree.paths)
    records = dict.fromkeys(Clue, ClueRecord())
    for change in changes:
        number = change.number
        changed = frozenset(
            path
            for path in change.files
            if path in paths and not history.is_hub(path, before=number)
        )
        if changed:
            weights = weigh_clues(records)
            files = predict(change.message, history, tree, weights=weights, before=number)
            case = PredictionCase(
                predicted=tuple(file for file in files if not file.may_touch),
                changed=changed,
                named=find_named(change.message, tree),
            )
            records = add_records(records, case)
            yield case
        if not paths.issuperset(change.files):
            paths.update(change.files)
            tree = FileTree(paths, definitions=tree.definitions, imports=tree.imports)


def score(cases: Sequence[PredictionCase]) -> Score:
    count = max(1, len(cases))
    clues: Mapping[Clue, ClueRecord] = dict.fromkeys(Clue, ClueRecord())
    for case in cases:
        clues = add_records(clues, case)
    return Score(
        cases=len(cases),
        recall=sum(_share_found(_first(case), case) for case in cases) / count,
        precision=sum(_share_right(case) for case in cases) / count,
        all_files=sum(_has_all(case) for case in cases) / count,
        named_recall=sum(_share_found(case.named[:AT], case) for case in cases) / count,
        clues=clues,
    )


def add_records(records: Mapping[Clue, ClueRecord], case: PredictionCase) -> dict[Clue, ClueRecord]:
    """Add the record of each clue to each predicted file of a case."""
    added = dict(records)
    for file in case.predicted:
        for clue, share in file.clues.items():
            hit = int(file.path in case.changed)
            if clue in added:  # a store may know clues of another version
                kind = Clue(clue)
                added[kind] = added[kind].plus(ClueRecord(expected=share, hits=hit))
    return added


def weigh_clues(records: Mapping[Clue, ClueRecord]) -> dict[Clue, float]:
    """Return the weight of each clue: its actual hits divided by the hits it predicted."""
    weights = dict(USUAL_WEIGHTS)
    for clue, record in records.items():
        usual = USUAL_WEIGHTS[clue] * _PRIOR
        weights[clue] = (record.hits + usual) / (record.expected + _PRIOR)
    return weights


def _first(case: PredictionCase) -> list[str]:
    return [file.path for file in case.predicted[:AT]]


def _share_found(predicted: Sequence[str], case: PredictionCase) -> float:
    return len(case.changed.intersection(predicted)) / len(case.changed)


def _share_right(case: PredictionCase) -> float:
    first = _first(case)
    return len(case.changed.intersection(first)) / max(1, len(first))


def _has_all(case: PredictionCase) -> bool:
    return case.changed <= {file.path for file in case.predicted}
