"""The commands as a stranger would use them: in a fresh repository, with typos."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli.shell import answer, assert_one_sentence, weft


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return root


def init(directory: Path) -> Any:
    done = weft(directory, "init", "--json")
    assert done.returncode == 1, "no agent is installed, and there is no commit"
    return json.loads(done.stdout)


def test_init_writes_its_files_once_and_never_overwrites(repository: Path) -> None:
    (repository / ".weft" / "agents").mkdir(parents=True)
    (repository / ".weft" / "agents" / "implement.md").write_text("mine")
    (repository / "sub").mkdir()
    first = init(repository / "sub")
    assert "weft.toml" in first["created"]
    assert first["kept"] == [".weft/agents/implement.md"]
    agents = {"implement", "test", "review", "judge", "plan", "lead", "try"}
    assert {file.stem for file in (repository / ".weft" / "agents").iterdir()} == agents
    assert (repository / ".weft" / "agents" / "implement.md").read_text() == "mine"
    again = init(repository)
    assert again["created"] == []


def test_init_does_not_write_through_a_link(repository: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (repository / "weft.toml").symlink_to(outside)
    assert "weft.toml" in init(repository)["kept"]
    assert not outside.exists()


def test_init_does_not_follow_a_link_out_of_the_repository(
    repository: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (repository / ".weft").symlink_to(outside)
    assert_one_sentence(weft(repository, "init"), 2, "leads out of the repository")
    assert not list(outside.rglob("*.md"))


def test_a_relative_store_is_one_store_from_every_directory(repository: Path) -> None:
    (repository / "sub").mkdir()
    (repository / "weft.toml").write_text('[store]\nurl = "sqlite:///state/weft.db"\n')
    answer(repository, "limits", "set", "llm", "1", "--json")
    shown = answer(repository / "sub", "limits", "--json")["limits"]
    assert next(one for one in shown if one["resource"] == "llm")["capacity"] == 1


def test_init_says_what_is_in_its_way(repository: Path) -> None:
    (repository / ".weft").write_text("a file")
    assert_one_sentence(weft(repository, "init"), 2, ".weft", "not a directory")


@pytest.mark.parametrize("command", ["agents", "clean", "init", "limits"])
def test_outside_a_repository_a_command_says_what_to_do(tmp_path: Path, command: str) -> None:
    assert_one_sentence(weft(tmp_path, command), 2, "not a git repository", "git init")


def test_a_worker_outside_a_repository_is_told_of_servers(tmp_path: Path) -> None:
    assert_one_sentence(weft(tmp_path, "worker"), 2, "in no git repository", "--server")
    leaving = weft(tmp_path, "worker", "--leave", HOME=str(tmp_path))
    assert_one_sentence(leaving, 2, "in no git repository", "--server", "it has joined no server")


def test_doctor_outside_a_repository_still_looks_at_the_programs(tmp_path: Path) -> None:
    done = weft(tmp_path, "doctor", "--json")
    assert done.returncode == 2
    checks = {check["name"]: check["ok"] for check in json.loads(done.stdout)["checks"]}
    assert checks == {"python": True, "git": True, "repository": False}


def test_what_init_writes_is_a_valid_configuration(repository: Path) -> None:
    init(repository)
    assert answer(repository, "doctor", "--json")["ok"]


def test_limits_are_shown_set_and_kept(repository: Path) -> None:
    before = {one["resource"]: one for one in answer(repository, "limits", "--json")["limits"]}
    assert before["llm"] == {
        "resource": "llm",
        "capacity": 12,
        "effective": 12,
        "used": 0,
        "owner": None,
        "source": "default",
    }
    assert before["stage/implement"]["capacity"] == 4
    told = answer(repository, "limits", "set", "llm", "5", "--json")
    assert (told["text"], told["changed"]) == (
        "The limit llm is 5 from now on; it was 12.",
        True,
    )
    assert not answer(repository, "limits", "set", "llm", "5", "--json")["changed"]
    assert "llm" in weft(repository, "limits").stdout
    after = answer(repository, "limits", "--json", WEFT_LIMIT_LLM="7")["limits"]
    assert next(one for one in after if one["resource"] == "llm")["capacity"] == 5


@pytest.mark.parametrize("number", ["-1", "1.5", "many", "--9"])
def test_a_limit_is_0_or_more(repository: Path, number: str) -> None:
    done = weft(repository, "limits", "set", "llm", number)
    assert done.returncode == 2
    assert f"The limit llm is a whole number, 0 or more and at most {2**50}, not" in done.stderr


def test_a_new_store_takes_its_limits_from_file_and_environment(repository: Path) -> None:
    (repository / "weft.toml").write_text('[limits]\nllm = 3\nrequests = 9\n"stage/test" = 2\n')
    shown = answer(repository, "limits", "--json", WEFT_LIMIT_LLM="7")["limits"]
    limits = {one["resource"]: one["capacity"] for one in shown}
    assert (limits["llm"], limits["requests"], limits["stage/test"]) == (7, 9, 2)


def test_doctor_names_the_command_that_reconciles_a_difference(repository: Path) -> None:
    answer(repository, "limits", "--json")
    done = weft(repository, "doctor", WEFT_LIMIT_LLM="7")
    assert done.returncode == 2
    assert "`weft limits set llm 7`" in done.stdout


def test_doctor_says_that_the_limits_are_in_order(repository: Path) -> None:
    answer(repository, "limits", "--json")
    report = weft(repository, "doctor")
    assert report.returncode == 0
    assert "ok       limits: 10 set, none reached; this configuration agrees\n" in report.stdout
    answer(repository, "limits", "set", "llm", "0", "--json")
    assert "limits: 10 set, 1 reached" in weft(repository, "doctor").stdout
    assert "ok       limits" not in weft(repository, "doctor", WEFT_LIMIT_LLM="7").stdout


def test_doctor_says_what_binds(repository: Path) -> None:
    answer(repository, "limits", "set", "llm", "0", "--json")
    report = answer(repository, "doctor", "--json")
    assert any("llm is paused" in check["text"] for check in report["checks"])


def test_setting_a_limit_warns_when_a_file_still_says_otherwise(repository: Path) -> None:
    (repository / "weft.toml").write_text("[limits]\nllm = 3\n")
    done = weft(repository, "limits", "set", "llm", "4")
    assert done.returncode == 0
    assert "weft.toml still says llm = 3" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("limitz",), ("There is no command 'limitz'", "Did you mean limits?")),
        (("merge",), ("There is no command 'merge'", "Did you mean land?")),
        (("limits", "set", "lm", "3"), ("no limit 'lm'", "Did you mean llm?")),
        (("limits", "set", "llm", "many"), ("many",)),
        (("limits", "set", "provider:a\nb", "3"), (r"'provider:a\nb'", "cannot be printed")),
        (("limits", "set", "llm"), ("N",)),
        (("limits", "set", "llm", "9" * 30), ("9" * 30,)),
        (("limits", "set", "llm", "--", "-1"), ("-1",)),
        (("limits", "sett", "llm", "1"), ("sett",)),
        (("-C", "nowhere", "limits"), ("nowhere",)),
        (("doctor", "--jsn"), ("--jsn",)),
    ],
)
def test_a_typo_gets_one_sentence(
    repository: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_one_sentence(weft(repository, *arguments), 2, *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[limits]\nlm = 3\n", ("unknown limit 'lm'", "llm")),
        ("[limits]\nllm = -3\n", ("llm", "0 or more")),
        ("[limit]\n", ("'limit'", "limits")),
        ("[limits", ("not valid TOML",)),
        ('[store]\nurl = "mysql://x"\n', ("sqlite:///", "postgresql://")),
    ],
)
def test_a_bad_file_gets_one_sentence(repository: Path, text: str, words: tuple[str, ...]) -> None:
    (repository / "weft.toml").write_text(text)
    assert_one_sentence(weft(repository, "limits"), 2, *words)


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 10, b"SQLite format 3\0" + b"x" * 100]
)
def test_a_foreign_store_is_refused_and_not_touched(repository: Path, content: bytes) -> None:
    file = repository / ".git" / "weft" / "weft.db"
    file.parent.mkdir()
    file.write_bytes(content)
    assert_one_sentence(weft(repository, "limits"), 2, "not a weft store", "WEFT_STORE")
    assert weft(repository, "doctor").returncode == 2
    assert file.read_bytes() == content
    assert [one.name for one in file.parent.iterdir()] == ["weft.db"]


def test_a_store_that_cannot_be_reached_is_one_sentence_without_the_password(
    repository: Path,
) -> None:
    url = "postgresql://me:hunter2@127.0.0.1:1/weft"
    done = weft(repository, "limits", WEFT_STORE=url)
    assert_one_sentence(done, 2, "127.0.0.1")
    assert "hunter2" not in done.stderr


@pytest.mark.each_store
def test_the_same_commands_work_on_postgresql(repository: Path, url: str) -> None:
    told = answer(repository, "limits", "set", "llm", "5", "--json", WEFT_STORE=url)
    assert told["text"].endswith("it was 12.")
    shown = answer(repository, "limits", "--json", WEFT_STORE=url)["limits"]
    assert next(one for one in shown if one["resource"] == "llm")["capacity"] == 5
    assert answer(repository, "doctor", "--json", WEFT_STORE=url)["ok"]


def test_without_a_command_the_help_is_shown(repository: Path) -> None:
    done = weft(repository)
    for command in ("agents", "clean", "do", "doctor", "init", "limits", "worker"):
        assert command in done.stdout
        assert weft(repository, command, "-h").returncode == 0


@pytest.mark.parametrize(
    ("typed", "command"),
    [("why", "weft why"), ("token create", "weft token create"), ("send x", "weft send")],
)
def test_what_is_missing_is_named_with_where_to_look(
    tmp_path: Path, typed: str, command: str
) -> None:
    done = weft(tmp_path, *typed.split())
    assert_one_sentence(done, 2, "Missing argument", f"`{command} --help` shows how it is used.")


def test_a_program_of_the_repository_does_not_run_for_a_relative_part_of_the_path(
    repository: Path, tmp_path: Path
) -> None:
    for place in (repository, repository / "bin"):
        place.mkdir(exist_ok=True)
        (place / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (place / "git").chmod(0o755)
    weft(repository, "limits", PATH=f".:bin::{os.environ['PATH']}")
    assert not (tmp_path / "ran").exists()
