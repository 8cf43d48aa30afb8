"""The history as numbers: files that belong together, hubs, groups and hostile names."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from weft.planning.history import History, group_files


def history_of(*commits: tuple[str, ...]) -> History:
    history = History()
    for number, files in enumerate(commits):
        history.add(f"commit {number}", files)
    return history


def test_files_that_changed_together_three_times_belong_together() -> None:
    history = history_of(*[("a.py", "b.py")] * 3, *[("a.py", "c.py")] * 2, ("a.py",))
    (close,) = history.list_together("a.py")
    assert (close.path, close.count, close.of) == ("b.py", 3, 6)
    assert history.bind("a.py", "b.py") == 1.0
    assert history.bind("a.py", "c.py") == 0.0


def test_recent_commits_count_more() -> None:
    old, new = [("a.py", "old.py")] * 5, [("a.py", "new.py")] * 5
    between = [("x.py",)] * 400
    history = history_of(*old, *between, *new)
    close = history.list_together("a.py")
    assert [neighbour.path for neighbour in close] == ["new.py", "old.py"]
    assert close[0].count == close[1].count


def test_a_commit_of_more_than_thirty_files_does_not_count() -> None:
    thirty = tuple(f"f{number}" for number in range(30))
    assert history_of(*[thirty] * 3).bind("f1", "f2") == 1.0
    history = history_of(*[(*thirty, "g")] * 3)
    assert history.size == 0
    assert history.list_together("f1") == ()


def test_a_file_in_more_than_a_tenth_of_all_commits_is_a_hub() -> None:
    others = [(f"f{number}",) for number in range(90)]
    assert history_of(*others, *[("CHANGELOG.md",)] * 10).list_hubs() == ()
    assert history_of(*others, *[("CHANGELOG.md",)] * 11).list_hubs() == ("CHANGELOG.md",)


def test_a_renamed_file_keeps_its_history() -> None:
    history = history_of(*[("old.py", "b.py")] * 3)
    history.add("move", ["new.py"], [("old.py", "new.py")])
    assert history.bind("new.py", "b.py") == 1.0
    assert history.list_together("b.py")[0].path == "new.py"


def test_groups_rarely_change_together_and_hubs_join_none() -> None:
    pairs = [("a.py", "b.py", "hub")] * 4 + [("c.py", "d.py", "hub")] * 4
    history = history_of(*pairs, *[(f"f{number}",) for number in range(40)])
    files = ["a.py", "c.py", "b.py", "d.py", "hub", "unknown.py"]
    assert history.is_hub("hub")
    assert group_files(history, files) == (
        ("a.py", "b.py"),
        ("c.py", "d.py"),
        ("hub",),
        ("unknown.py",),
    )


names = st.text(st.characters(exclude_categories=()), max_size=12)
commits = st.lists(st.tuples(st.text(max_size=60), st.lists(names, max_size=5)), max_size=12)


@given(commits)
def test_any_message_and_name_is_kept_or_left_out_and_read_again(
    added: list[tuple[str, list[str]]],
) -> None:
    history = History()
    for message, files in added:
        history.add(message, files)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(history), type=History) == history
    for path in history.paths:
        assert path.isprintable()
        history.list_together(path)
