"""What a task handed in by hand may ask for, and how it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.shell import TRY, make_project, runs
from repositories import git
from weft.errors import InputError
from weft.operations import single_task
from weft.project import agent_list
from weft.project.project import Project, get_project
from weft.store import open_store
from weft.store.tasks import get_task


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Project:
    root = make_project(tmp_path_factory.mktemp("do") / "project", gone=runs("bin/nothing"))
    return get_project(root, {"PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize(
    ("text", "files", "agent", "words"),
    [
        ("", (), "try", "Say what is to be done"),
        (" \n", (), "try", "Say what is to be done"),
        ("x", ("/etc/passwd",), "try", "absolute"),
        ("x", ("../x",), "try", "'..'"),
        ("x", (".git/config",), "try", "git's own directory"),
        ("x", ("a\x1b[31m",), "try", "unprintable"),
        ("x", ("",), "try", "empty"),
        ("x", ("none", "a"), "try", "give it alone"),
        ("x", (), "tri", "Did you mean try?"),
        ("x", (), "../try", "There is no agent"),
        ("x", (), "gone", "bin/nothing is not installed"),
    ],
)
def test_what_could_only_fail_is_refused(
    found: Project, text: str, files: tuple[str, ...], agent: str, words: str
) -> None:
    with pytest.raises(InputError) as refused:
        single_task.check(found, text, files=files, agent=agent)
    assert words in str(refused.value)


def test_a_repository_without_commits_is_told_how_to_make_one(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".weft" / "agents").mkdir(parents=True)
    (tmp_path / ".weft" / "agents" / "try.md").write_text(TRY)
    with pytest.raises(InputError, match="git commit --allow-empty"):
        single_task.check(get_project(tmp_path, {}), "x", files=(), agent="try")


def test_files_are_claimed_as_named_and_none_claims_nothing(found: Project) -> None:
    claims = {
        files: single_task.check(found, "x", files=files, agent="try").files
        for files in [(), ("none",), ("src/", "a.py")]
    }
    assert claims == {(): None, ("none",): (), ("src/", "a.py"): ("src/**", "a.py")}


def test_without_files_and_without_a_history_everything_is_claimed(
    found: Project, tmp_path: Path
) -> None:
    with open_store(f"sqlite:///{tmp_path / 'weft.db'}") as store:
        task = single_task.check(found, "x", files=(), agent="try")
        number = single_task.submit_task(found, store, task)
        assert get_task(store, number).files == ("**",)


def test_a_name_is_readable_and_never_given_twice() -> None:
    names = {
        single_task.choose_name("Fix the typo in README.md, please\nscript: x") for _ in range(100)
    }
    assert len(names) == 100, "a second store starts from 1 again, and the branches are still there"
    assert all(name.startswith("fix-the-typo-in-readme-md-") for name in names)
    assert single_task.choose_name("日本語").startswith("task-")
    assert len(single_task.choose_name("x" * 10_000)) < 50


def test_an_agent_with_a_typo_is_suggested(found: Project) -> None:
    for ask in (agent_list.get_agent, agent_list.resume):
        with pytest.raises(InputError, match=r"'tri'\. Did you mean try\?"):
            ask(found, "tri")
