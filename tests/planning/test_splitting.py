"""The decision whether a task is worth splitting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cases import each_case
from weft.planning.history import History
from weft.planning.predictor import Mirrors
from weft.planning.splitting import (
    LEAST_SECONDS,
    MOST_PARTS,
    KnownFiles,
    PartRole,
    SplitAdvice,
    SplitCosts,
    advise,
)

API = [f"api/a{number}.py" for number in range(6)]
UI = [f"ui/u{number}.ts" for number in range(6)]


def past(*commits: Sequence[str], times: int = 4, others: int = 100) -> History:
    history = History()
    for _ in range(times):
        for files in commits:
            history.add("a change", files)
    for number in range(others):
        history.add("elsewhere", [f"other/{number}"])
    return history


def decide(
    files: Sequence[str],
    history: History,
    *,
    slots: int = 4,
    check: float = 60.0,
    seconds: Callable[[int], float] = lambda files: 200.0 * files,
    imports: Mapping[str, tuple[str, ...]] | None = None,
) -> SplitAdvice:
    known = KnownFiles(history=history, mirrors=Mirrors(files), imports=imports or {})
    return advise("1.1", files, known, SplitCosts(slots=slots, check=check, seconds=seconds))


def files_of(advice: SplitAdvice, role: PartRole) -> list[set[str]]:
    return [set(part.files) for part in advice.parts if part.role is role]


def test_files_that_rarely_change_together_make_a_split_that_pays() -> None:
    advice = decide([*API, *UI], past(API, UI))
    assert advice.pays, advice
    assert files_of(advice, PartRole.GROUP) == [set(API), set(UI)]
    assert advice.after < 0.7 * advice.before
    # Set-up 30 s, 6 files, merge 30 s, check 60 s; whole: set-up, 12 files, check.
    assert (advice.after, advice.before) == (30 + 1200 + 30 + 60, 30 + 2400 + 60)


@each_case(
    ("files", "history", "words"),
    [
        (API[:2], past(API), "it has 2 files, and a task with fewer than 3 is not split"),
        (API, past(API), "two groups"),
        ([*API, *UI], past([*API, *UI]), "two groups"),
    ],
)
def test_few_files_and_files_that_change_together_are_not_split(
    files: list[str], history: History, words: str
) -> None:
    advice = decide(files, history)
    assert not advice.pays
    assert words in advice.reason
    assert advice.parts == ()


def test_a_split_that_saves_too_little_does_not_pay() -> None:
    history = past(API, UI)
    for circumstances in (
        {"slots": 1},  # one after the other
        {"check": 10_000.0},  # the check takes nearly all of the time
        {"seconds": lambda files: 3000.0 + files},  # a part takes as long as the whole
    ):
        advice = decide([*API, *UI], history, **circumstances)
        assert not advice.pays, circumstances
        assert "less than 30%" in advice.reason


def test_a_task_shorter_than_five_minutes_is_not_split() -> None:
    advice = decide([*API, *UI], past(API, UI), seconds=lambda files: 24.0 * files)
    assert not advice.pays
    assert "less than 5 min is not worth splitting" in advice.reason
    exact = decide(
        [*API, *UI], past(API, UI), check=0, seconds=lambda files: LEAST_SECONDS / 12 * files
    )
    assert exact.pays, "five minutes are enough"


def test_hub_files_come_first_and_bind_no_groups() -> None:
    hubs = ["core/a.py", "core/b.py"]
    history = past([*API, *hubs], [*UI, *hubs], times=10, others=130)
    advice = decide([*API, *UI, *hubs], history)
    assert advice.pays, advice
    assert files_of(advice, PartRole.FIRST) == [set(hubs)]
    assert files_of(advice, PartRole.GROUP) == [set(API), set(UI)]
    assert advice.after == (30 + 400) + (30 + 1200) + 30 + 60, "the groups wait for the hubs"


def test_a_file_that_changes_with_both_groups_connects_them_last() -> None:
    wiring = ["main.py", "routes.py"]
    history = past([*API, *wiring], [*UI, *wiring])
    advice = decide([*API, *UI, *wiring], history, seconds=lambda files: 300.0 * files)
    assert files_of(advice, PartRole.LAST) == [set(wiring)]
    assert files_of(advice, PartRole.GROUP) == [set(API), set(UI)]
    assert advice.pays


def test_a_file_that_imports_both_groups_connects_them_last() -> None:
    files = [*API, *UI, "main.py", "menu.py"]
    imports = dict.fromkeys(("main.py", "menu.py"), (API[0], UI[0]))
    history = past(API, UI, ["main.py"], ["menu.py"])
    advice = decide(files, history, imports=imports)
    assert files_of(advice, PartRole.LAST) == [{"main.py", "menu.py"}]


def test_there_are_at_most_four_parts_of_about_the_same_size() -> None:
    groups = [[f"d{group}/f{number}.py" for number in range(3)] for group in range(8)]
    files = [file for group in groups for file in group]
    advice = decide(files, past(*groups), slots=8)
    assert [len(part.files) for part in advice.parts] == [6] * MOST_PARTS
    assert {file for part in advice.parts for file in part.files} == set(files)
    for group in groups:
        assert sum(bool(set(group) & set(part.files)) for part in advice.parts) == 1


def test_a_test_goes_with_its_source_and_a_new_file_with_its_directory() -> None:
    tests = ["tests/test_a0.py", "ui/new.ts"]
    advice = decide([*API, *UI, *tests], past(API, UI))
    assert files_of(advice, PartRole.GROUP) == [{*API, tests[0]}, {*UI, tests[1]}]


def test_without_a_history_directories_are_the_borders_and_in_one_directory_files() -> None:
    advice = decide([*API, *UI], History())
    assert files_of(advice, PartRole.GROUP) == [set(API), set(UI)]
    alone = decide([f"one/{number}.py" for number in range(3)], History(), slots=3)
    assert files_of(alone, PartRole.GROUP) == [{f"one/{number}.py"} for number in range(3)]
    assert alone.pays
    joined = decide(["one/a.py", "one/test_a.py", "one/b.py"], History())
    assert files_of(joined, PartRole.GROUP) == [{"one/a.py", "one/test_a.py"}, {"one/b.py"}]
