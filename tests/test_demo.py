"""The demo: everything in it happens as promised, and a promise that is not kept is noticed."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from weft.demo.promises import goal_promises, promises


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The demo, run without a terminal: where, and what it printed."""
    directory = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [sys.executable, "-m", "weft", "demo", str(directory)],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return directory, done.stdout


def test_in_the_second_scene_a_goal_becomes_a_plan_that_lands(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "weft", "demo", str(tmp_path), "--scene", "goal", "--json"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done
    told = json.loads(done.stdout)
    assert told["tests_passed"]
    assert [promise["kept"] for promise in told["promises"]] == [True] * 4
    planning = {"attempts": 1}
    kept = [holds for holds, _ in goal_promises(report(tmp_path), planning)]
    assert kept == [False, True], "a promise that was not kept is noticed"


def report(directory: Path) -> dict[str, Any]:
    return weft(directory / "shop", "report", "--json")


def test_it_ends_with_everything_landed_tested_and_reported(shown: tuple[Path, str]) -> None:
    directory, printed = shown
    assert "NOT SO" not in printed
    assert "\nOK\n" in printed, "the tests of the project, on the landed branch"
    assert f"The report of this run: {directory / 'report.html'}" in printed
    page = (directory / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count('class="bar ') >= 16 + 10, "attempts and checks are drawn"
    assert not (directory / "landed").exists()


def test_the_recorded_run_is_played_again_and_gives_the_same_tree(
    shown: tuple[Path, str], tmp_path: Path
) -> None:
    """Its rate limit, conflict, failing test, scope and crash come again, in the same order."""
    shop, run = shown[0] / "shop", report(shown[0])["run"]
    recorded = weft(shop, "recordings", "save", run, "-o", str(tmp_path / "recordings"), "--json")
    assert len(recorded["files"]) == len(list((tmp_path / "recordings").iterdir())) >= 16
    played = weft(
        shop, "recordings", "play", run, "--from", str(tmp_path / "recordings"), "--fast", "--json"
    )
    assert played["same"], played
    assert played["original_tree"] == played["tree"]
    assert (shop / ".git" / "refs" / "heads" / "weft" / played["run"]).exists()


def weft(shop: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "weft", *arguments],
        cwd=shop,
        env={name: value for name, value in os.environ.items() if not name.startswith("WEFT_")},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_a_promise_that_was_not_kept_is_noticed(shown: tuple[Path, str]) -> None:
    told = report(shown[0])
    assert all(holds for holds, _ in promises(told))
    for broken, words in [
        (_without_attempt(told, "2.2", 1), "a crash"),
        (_without_attempt(told, "1.2", 2), "a rate limit"),
        (_only_rejected(told, "red"), "again on what had landed"),
        (_only_rejected(told, "conflict"), "a failing check"),
        (told | {"tasks": told["tasks"][:-1]}, "all 11 tasks"),
    ]:
        noticed = [what for holds, what in promises(broken) if not holds]
        assert any(words in what for what in noticed), words


def _only_rejected(told: dict[str, Any], kind: str) -> dict[str, Any]:
    return told | {"rejections": [one for one in told["rejections"] if one["kind"] == kind]}


def _without_attempt(told: dict[str, Any], task: str, number: int) -> dict[str, Any]:
    changed = copy.deepcopy(told)
    for one in changed["attempts"]:
        if (one["task"], one["number"]) == (task, number):
            one["outcome"] = one["fate"] = "timeout"
    return changed
