"""The index of history: incremental, rebuilt when it must be, safe from crashes and each other."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from bench.planted_history import PlantedCommit, plant_commits, plant_topics, write_repository
from repositories import commit_all, git
from weft.planning.history import History
from weft.project.file_knowledge import read_knowledge
from weft.project.history_index import index_directory, read_index

COMMITS = list(plant_commits(240, plant_topics(12)))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_repository(tmp_path / "r", COMMITS[:200])
    return tmp_path / "r"


def tip(root: Path) -> str:
    return git(root, "rev-parse", "HEAD").strip()


def index_of(root: Path) -> Path:
    return index_directory(root / ".git") / "commits"


def rebuilt(root: Path) -> History:
    """The history as it is built from nothing."""
    os.rename(index_of(root), index_of(root).with_name("aside"))
    history = read_index(root, tip(root)).history
    os.rename(index_of(root).with_name("aside"), index_of(root))
    return history


def test_an_index_that_grew_is_equal_to_an_index_that_is_rebuilt(root: Path) -> None:
    chance = random.Random(15)
    read_index(root, tip(root))
    first = 200
    while first < len(COMMITS):
        last = min(len(COMMITS), first + chance.randint(1, 15))
        write_repository(root, COMMITS[first:last], first)
        grown = read_index(root, tip(root))
        first = last
    assert grown.added > 0
    assert grown.history == rebuilt(root)
    assert read_index(root, tip(root)).history == grown.history


def test_renames_and_hostile_names_grow_as_they_are_rebuilt(root: Path) -> None:
    read_index(root, tip(root))
    for name in ("\udcff.py", "new\nline", "é.py"):
        (root / name).write_text("x\n" * 9)
    commit_all(root, "\udcff hostile \x01 names")
    git(root, "mv", "é.py", "plain.py")
    commit_all(root, "rename it")
    grown = read_index(root, tip(root)).history
    assert "plain.py" in grown.paths
    assert "new\nline" not in grown.paths
    assert grown == rebuilt(root)


def test_an_index_at_its_commit_is_read_and_not_written(root: Path) -> None:
    read_index(root, tip(root))
    before = index_of(root).stat().st_mtime_ns
    read_index(root, tip(root))
    assert index_of(root).stat().st_mtime_ns == before


def test_a_rewritten_history_is_read_anew(root: Path) -> None:
    read_index(root, tip(root))
    git(root, "reset", "-q", "--hard", "HEAD~50")
    (root / "new.py").write_text("x\n")
    commit_all(root, "another way")
    history = read_index(root, tip(root)).history
    assert history == rebuilt(root)
    assert "new.py" in history.paths


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign", "half a frame"])
def test_a_damaged_index_gives_the_right_history(root: Path, damage: str) -> None:
    whole = read_index(root, tip(root)).history
    file = index_of(root)
    data = file.read_bytes()
    middle = len(data) // 2
    file.write_bytes(
        {
            "cut": data[:middle],
            "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
            "empty": b"",
            "foreign": b"SQLite format 3\0" + data,
            "half a frame": data + data[20:40],
        }[damage]
    )
    assert read_index(root, tip(root)).history == whole
    write_repository(root, COMMITS[200:205], 200)
    assert read_index(root, tip(root)).history == rebuilt(root)


def test_readers_and_writers_at_once_see_whole_histories(root: Path) -> None:
    wanted = tip(root)
    sizes: list[int] = []

    def read() -> None:
        sizes.append(read_index(root, wanted).history.size)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(sizes)) == 1
    assert len(sizes) == 6


def test_a_directory_that_cannot_be_written_costs_the_index_alone(root: Path) -> None:
    (root / ".git" / "weft").write_text("not a directory")
    assert read_index(root, tip(root)).history.size > 150


def test_the_score_is_kept_until_the_history_has_grown_by_a_tenth(root: Path) -> None:
    known = read_knowledge(root)
    assert known is not None
    assert known.score is not None
    assert known.score.is_enough
    file = index_directory(root / ".git") / "score"
    before = file.stat().st_mtime_ns
    write_repository(root, COMMITS[200:205], 200)
    read_knowledge(root)
    assert file.stat().st_mtime_ns == before
    file.write_bytes(b"damaged")
    again = read_knowledge(root)
    assert again is not None
    assert again.score is not None
    assert file.stat().st_mtime_ns != before
    write_repository(root, COMMITS[205:240], 205)
    read_knowledge(root)
    assert file.read_bytes() != b"damaged"


def test_a_young_history_has_no_score(tmp_path: Path) -> None:
    write_repository(tmp_path / "r", [PlantedCommit("one", ("a.py",))])
    known = read_knowledge(tmp_path / "r")
    assert known is not None
    assert known.score is None


def test_a_repository_without_commits_has_no_knowledge(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert read_knowledge(tmp_path) is None
