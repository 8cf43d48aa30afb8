"""Predicted files for the tasks of a plan that name none, and the claims that follow from them.

Predictions are used where the repository's own past shows that they are good enough; elsewhere they
are shown, and a task without files claims the whole repository.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.formats import count
from weft.git import GitFailed
from weft.model import AttemptFiles, PredictedFile
from weft.paths import BadPath, conflicts, normalise, quote
from weft.plan.plan_records import WHOLE_REPOSITORY, ItemKind, Plan, PlanTask, list_claims
from weft.planning.claim_choice import USUAL_HOLD, USUAL_REDO, ClaimPrices, TaskFiles, choose_claims
from weft.planning.history import History
from weft.planning.predictor import USUAL_WEIGHTS, Clue, FileTree, predict
from weft.planning.score import (
    ENOUGH,
    ClueRecord,
    PredictionCase,
    Score,
    add_records,
    score,
    weigh_clues,
)
from weft.project.file_knowledge import (
    LEAST_HISTORY,
    FileKnowledge,
    add_imports,
    read_knowledge,
    read_tree,
)
from weft.runs.outlook import CHECK_SECONDS
from weft.store import Store
from weft.store.attempt_reports import (
    AttemptSeconds,
    list_attempt_files,
    list_held_patterns,
    measure_attempts,
)

log = logging.getLogger(__name__)

MOST_TASKS: Final = 300
"""Tasks of a plan whose files are predicted; a prediction takes some hundredths of a second."""

_FEW_TASKS: Final = 20  # so many tasks are predicted a second time, with the imports of their files
_MOST_HUBS: Final = 20
_SEEDS: Final = 3  # predicted files of a task whose imports are read


class PlanPrediction(Struct, frozen=True, kw_only=True):
    """The predicted files of the tasks that name none."""

    tasks: Mapping[str, tuple[PredictedFile, ...]]
    used: bool  # as claims
    note: str  # a sentence for the author of the plan


class Predictor(Struct, frozen=True, kw_only=True):
    """The knowledge about a repository, with the weights that its records give to the clues."""

    knowledge: FileKnowledge
    weights: Mapping[Clue, float]
    attempts: Sequence[AttemptFiles]
    prices: ClaimPrices
    held: Sequence[tuple[str, int]]  # patterns that tasks at work hold now, without whole claims

    def predict(self, texts: Mapping[str, str]) -> dict[str, tuple[PredictedFile, ...]]:
        """Predict the files of texts by name; few texts get an import hop too."""
        known = self.knowledge
        tree = read_tree(known.root, known.tip, texts.values())
        files = self._predict(texts, tree)
        if len(texts) <= _FEW_TASKS:
            seeds = {file.path for each in files.values() for file in each[:_SEEDS]}
            tree = add_imports(known.root, known.tip, tree, sorted(seeds))
            files = self._predict(texts, tree) if any(tree.imports.values()) else files
        hubs = [
            _as_hub(path, known.history) for path in known.history.list_hubs() if path in tree.paths
        ]
        return {
            name: tuple(filter(_can_be_claimed, _with_hubs(each, hubs)))
            for name, each in files.items()
        }

    def _predict(
        self, texts: Mapping[str, str], tree: FileTree
    ) -> dict[str, tuple[PredictedFile, ...]]:
        return {
            name: predict(text, self.knowledge.history, tree, weights=self.weights)
            for name, text in texts.items()
        }

    def choose_claims(
        self, tasks: Mapping[str, TaskFiles], slots: int
    ) -> dict[str, tuple[PredictedFile, ...]]:
        """Mark the predicted files that tasks claim, by price."""
        paths = {file.path for task in tasks.values() for file in task.predicted}
        rates = {path: self.knowledge.history.share(path) for path in paths}
        return choose_claims(tasks, slots, self.prices, self.held, rates)

    def explain_disuse(self) -> str:
        """Return why predictions are shown and not used; empty if they are used."""
        result = self.knowledge.score
        if result is None:
            size = count(self.knowledge.history.size, "commit")
            return f"the history has {size} to learn from, and {LEAST_HISTORY} are needed"
        if not result.is_enough:
            return (
                f"on the last {count(result.cases, 'commit')} their recall at 5 files is "
                f"{result.recall:.2f}, and {ENOUGH} is needed"
            )
        return ""


def open_predictor(root: Path, store: Store | None, repo: str) -> Predictor | None:
    """Return the predictor of a repository; None if it has no history that can be read."""
    try:
        known = read_knowledge(root)
    except (GitFailed, OSError) as error:
        log.warning("could not read the history of %s: %s", root, error)
        return None
    if known is None:
        return None
    attempts: Sequence[AttemptFiles] = ()
    held: Sequence[tuple[str, int]] = ()
    seconds = AttemptSeconds()
    if store is not None:
        attempts = list_attempt_files(store, repo)
        held = [pair for pair in list_held_patterns(store, repo) if pair[0] != WHOLE_REPOSITORY]
        seconds = measure_attempts(store, repo, now=time.time())
    records = known.score.clues if known.score is not None else dict.fromkeys(Clue, ClueRecord())
    for case in list_cases(attempts):
        records = add_records(records, case)
    return Predictor(
        knowledge=known,
        weights=weigh_clues(records) if records else USUAL_WEIGHTS,
        attempts=attempts,
        prices=_prices(seconds),
        held=held,
    )


def _prices(seconds: AttemptSeconds) -> ClaimPrices:
    usual = seconds.usual
    return ClaimPrices(
        redo=seconds.redone or usual or USUAL_REDO,
        hold=USUAL_HOLD if usual is None else usual + CHECK_SECONDS,
    )


def list_cases(attempts: Sequence[AttemptFiles]) -> list[PredictionCase]:
    """List the attempts that had a prediction and changed files, latest first."""
    cases = []
    for attempt in attempts:
        hubs = {file.path for file in attempt.predicted if file.may_touch}
        changed = frozenset(attempt.changed) - hubs
        if attempt.predicted and changed:
            files = tuple(file for file in attempt.predicted if not file.may_touch)
            cases.append(PredictionCase(predicted=files, changed=changed))
    return cases


def score_attempts(attempts: Sequence[AttemptFiles]) -> Score:
    """Score the predictions for weft's own attempts."""
    return score(list_cases(attempts))


def count_declared(attempts: Sequence[AttemptFiles]) -> tuple[int, float]:
    """Return the attempts with declared files, and the share of changed files that they named."""
    declared = [attempt for attempt in attempts if attempt.declared and attempt.changed]
    shares = [_share_within(attempt.changed, attempt.declared) for attempt in declared]
    return len(declared), sum(shares) / max(1, len(shares))


def _share_within(changed: Sequence[str], patterns: Sequence[str]) -> float:
    inside = sum(any(conflicts(quote(path), each) for each in patterns) for path in changed)
    return inside / len(changed)


def predict_plan(predictor: Predictor, plan: Plan, slots: int) -> tuple[Plan, PlanPrediction]:
    """Predict the files of the tasks that name none; return the plan with the claims chosen.

    Where the history predicts too little, a task claims the files that its text names; without
    such files it stays as it is.
    """
    unknown = [task for task in plan.tasks if is_predictable(task)][:MOST_TASKS]
    files = predictor.predict({task.id: task_text(task) for task in unknown})
    reason = predictor.explain_disuse()
    chosen = (
        _claim_named(files) if reason else predictor.choose_claims(_list_files(plan, files), slots)
    )
    tasks = tuple(
        replace(task, predicted=chosen[task.id]) if task.id in chosen else task
        for task in plan.tasks
    )
    used = bool(chosen) or not reason
    note = _describe(len(chosen), len(unknown), reason)
    return replace(plan, tasks=tasks), PlanPrediction(
        tasks={**files, **chosen}, used=used, note=note
    )


def _claim_named(
    predicted: Mapping[str, tuple[PredictedFile, ...]],
) -> dict[str, tuple[PredictedFile, ...]]:
    """Mark the files that texts name as claimed, of the tasks whose text names a file."""
    marked = {
        name: tuple(
            replace(file, claimed=Clue.PATH in file.clues and not file.may_touch) for file in files
        )
        for name, files in predicted.items()
    }
    return {name: files for name, files in marked.items() if list_claims(files)}


def predict_text(predictor: Predictor, text: str, slots: int) -> tuple[PredictedFile, ...]:
    """Predict the files of a task by itself, with its claims; none where they are not used."""
    if predictor.explain_disuse():
        return ()
    files = TaskFiles(predicted=predictor.predict({"": text})[""])
    return predictor.choose_claims({"": files}, slots).get("", ())


def _describe(tasks: int, unknown: int, reason: str) -> str:
    if reason:
        named = f"The files of {count(tasks, 'task')} are those that the text names. "
        alone = "tasks without files run alone"
        if tasks == unknown:
            return named.rstrip()
        return (
            f"{named if tasks else ''}Predicted files are shown by `weft plan predict` and not "
            f"used: {reason}; {alone}."
        )
    if not tasks:
        return ""
    return f"The files of {count(tasks, 'task')} are predicted; `weft plan predict` shows them."


def is_predictable(task: PlanTask) -> bool:
    """Tell whether the files of a task are to be predicted: it works and names none."""
    works = task.kind in (ItemKind.TASK, ItemKind.SUBTASK) and not task.manual
    return works and task.files is None and not task.settled


def task_text(task: PlanTask) -> str:
    return "\n".join((task.text, task.details, *task.criteria))


def _list_files(
    plan: Plan, predicted: Mapping[str, tuple[PredictedFile, ...]]
) -> dict[str, TaskFiles]:
    """Return the files of each task that is still to be done, by task."""
    return {
        task.id: TaskFiles(declared=task.files or (), predicted=predicted.get(task.id, ()))
        for task in plan.tasks
        if not task.settled and not task.manual
    }


def _as_hub(path: str, history: History) -> PredictedFile:
    share = history.share(path)
    reason = f"changed in {share:.0%} of all commits"
    return PredictedFile(
        path=path, probability=round(share, 3), reason=reason, clues={}, may_touch=True
    )


def _with_hubs(
    files: Sequence[PredictedFile], hubs: Sequence[PredictedFile]
) -> Iterator[PredictedFile]:
    """Yield the predicted files, and the hubs that are not among them: a task may touch each."""
    yield from files
    known = {file.path for file in files}
    yield from (hub for hub in hubs[:_MOST_HUBS] if hub.path not in known)


def _can_be_claimed(file: PredictedFile) -> bool:
    try:
        normalise(quote(file.path))
    except BadPath:
        return False
    return True
