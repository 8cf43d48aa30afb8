"""Where a project is: exactly where git says, whether git was asked or not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from repositories import git, make_repository
from weft.errors import InputError
from weft.git import get_directories
from weft.project.project import get_project


def plain(root: Path) -> Path:
    return root


def below(root: Path) -> Path:
    return root / "dir"


def through_a_link(root: Path) -> Path:
    link = root.with_name("link")
    link.symlink_to(root)
    return link


def another_working_tree(root: Path) -> Path:
    git(root, "worktree", "add", "-q", "../second")
    return root.with_name("second")


def files_elsewhere(root: Path) -> Path:
    root.with_name("files").mkdir()
    git(root, "config", "core.worktree", "../../files")
    return root


def files_elsewhere_for_this_tree_alone(root: Path) -> Path:
    root.with_name("files").mkdir()
    git(root, "config", "extensions.worktreeConfig", "true")
    git(root, "config", "--worktree", "core.worktree", "../../files")
    return root


def bare(root: Path) -> Path:
    git(root, "config", "core.bare", "true")
    return root


def inside_the_git_directory(root: Path) -> Path:
    return root / ".git"


def git_directory_elsewhere(root: Path) -> Path:
    git(root, "init", "-q", "--separate-git-dir=../objects")
    return root


def git_directory_by_a_link(root: Path) -> Path:
    (root / ".git").rename(root.with_name("linked"))
    (root / ".git").symlink_to("../linked")
    return root


def detached(root: Path) -> Path:
    git(root, "checkout", "-q", "--detach")
    return root


def a_broken_one_in_a_whole_one(root: Path) -> Path:
    git(root, "init", "-q", "dir")
    (root / "dir" / ".git" / "HEAD").write_text("nothing\n")
    return root / "dir"


def a_hollow_one_in_a_whole_one(root: Path) -> Path:
    git(root, "init", "-q", "dir")
    (root / "dir" / ".git" / "refs").rename(root / "dir" / "refs")
    return root / "dir"


def objects_of_another(root: Path) -> Path:
    other = make_repository(root.with_name("other"))
    (root / ".git" / "commondir").write_text(f"{other / '.git'}\n")
    return root


def of_another_user(root: Path) -> Path:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(root, 12345, 12345)
    return root


def of_a_later_format(root: Path) -> Path:
    git(root, "config", "core.repositoryFormatVersion", "1")
    git(root, "config", "extensions.unheardOf", "true")
    return root


def none_at_all(root: Path) -> Path:
    empty = root.with_name("empty")
    empty.mkdir()
    return empty


@pytest.mark.parametrize(
    "arrange",
    [
        plain,
        below,
        through_a_link,
        another_working_tree,
        files_elsewhere,
        files_elsewhere_for_this_tree_alone,
        bare,
        inside_the_git_directory,
        git_directory_elsewhere,
        git_directory_by_a_link,
        detached,
        a_broken_one_in_a_whole_one,
        a_hollow_one_in_a_whole_one,
        objects_of_another,
        of_another_user,
        of_a_later_format,
        none_at_all,
    ],
)
def test_a_project_is_where_git_says(tmp_path: Path, arrange: Callable[[Path], Path]) -> None:
    directory = arrange(make_repository(tmp_path / "project"))
    try:
        said = get_directories(directory)
    except InputError as refused:
        with pytest.raises(type(refused)):
            get_project(directory, {})
        return
    found = get_project(directory, {})
    assert (found.root, found.store_file) == (said[0], said[1] / "weft" / "weft.db")


def test_a_glance_starts_no_program_and_loads_little(tmp_path: Path) -> None:
    """People wait for it: what costs a good part of their time stays out."""
    root = make_repository(tmp_path / "project")
    get_project(root, {}).open_store().close()  # the first of all makes a store
    look = (
        "import sys; from weft.cli import weft; weft(['ps'], standalone_mode=False);"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", look], cwd=root, capture_output=True, check=True)
    loaded = set(done.stderr.decode().split())
    assert "weft.store.overview" in loaded
    assert not loaded & {"subprocess", "tempfile", "rich", "anyio", "asyncio", "psycopg"}
