"""The prediction of the files that a task changes, from its text.

The text hints at the first files (`clues.read_text`); each of them brings its companions
(`clues.list_companions`). The clues to a file are joined as if they were independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from weft.model import PredictedFile
from weft.predict.clues import Hint, list_companions, read_text
from weft.predict.history import History
from weft.predict.prediction_records import Clue, FileTree

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
