"""Notifications: their content, once per question, and a warning where the command fails."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from repositories import git
from weft import config
from weft.errors import StaleFence
from weft.model import HUMAN, NewRun, NewTask
from weft.runs.progress import read_progress
from weft.store import Store, open_store
from weft.store.runs import end_finished, submit_run
from weft.store.tasks import approve
from weft.worker.projections import News
from weft.worker.projections.notifications import ENDED, Notifications, send

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def notify(root: Path, settings: str, told: dict[str, Any]) -> bool:
    parsed = config.parse(f"[notify]\n{settings}\n", {}).notify
    return send(parsed, ENDED, "plan-1", told, root=root, environment=ENVIRONMENT)


@pytest.fixture(autouse=True)
def repository(tmp_path: Path) -> None:
    """The scratch files of a message lie in the git directory."""
    git(tmp_path, "init", "-q")


@pytest.mark.parametrize(
    "command",
    [
        "'echo $WEFT_RUN $WEFT_EVENT > told; cat >> told'",
        "['sh', '-c', 'echo $WEFT_RUN $WEFT_EVENT > told; cat >> told']",
    ],
)
def test_a_message_carries_the_run_the_event_and_a_summary(tmp_path: Path, command: str) -> None:
    told = {"needs_you": ["häh?"]}
    assert notify(tmp_path, f"command = {command}", told)
    first, rest = (tmp_path / "told").read_text().split("\n", 1)
    assert first == "plan-1 run_ended"
    assert json.loads(rest) == {"event": "run_ended", **told}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("command = 'echo broken; exit 3'", ("exit 3", "broken")),
        ("command = ['no-such-program-of-weft']", ("cannot be started",)),
        ("command = 'sleep 600 & sleep 600'\ntimeout = 0.2", ("took more than",)),
    ],
)
def test_a_messenger_that_fails_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, settings: str, words: tuple[str, ...]
) -> None:
    with caplog.at_level(logging.WARNING):
        assert not notify(tmp_path, settings, {})
    for word in words:
        assert word in caplog.text


def test_a_command_need_not_read_the_summary(tmp_path: Path) -> None:
    assert notify(tmp_path, "command = 'echo x > told'", {"much": "x" * 1_000_000})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'weft.db'}") as opened:
        submit_run(
            opened, NewRun(id="r1", repo="r"), [NewTask(name="a", agent=HUMAN)], now=time.time()
        )
        yield opened


def test_each_question_is_told_once_whichever_worker_tells_it(tmp_path: Path, store: Store) -> None:
    settings = config.parse("[notify]\ncommand = 'echo $WEFT_EVENT >> told'\n", {}).notify
    asked: Sequence[str] = ()
    for _ in range(2):
        notifications = Notifications(settings, tmp_path, ENVIRONMENT, asked)
        progress = read_progress(store, "r1")
        assert notifications.wants(progress, changed=False) == (not asked)
        asked = notifications.apply(News(progress=progress))
        assert notifications.apply(News(progress=progress)) == asked
    assert (tmp_path / "told").read_text() == "person_needed\n"
    [task] = read_progress(store, "r1").tasks
    approve(store, task.id, now=time.time())
    end_finished(store, now=time.time())
    Notifications(settings, tmp_path, ENVIRONMENT, asked).apply(
        News(progress=read_progress(store, "r1"))
    )
    assert (tmp_path / "told").read_text() == "person_needed\nrun_ended\n"


def test_a_worker_that_lost_its_lease_sends_nothing(tmp_path: Path, store: Store) -> None:
    settings = config.parse("[notify]\ncommand = 'echo >> told'\n", {}).notify

    def confirm() -> None:
        raise StaleFence

    with pytest.raises(StaleFence):
        Notifications(settings, tmp_path, ENVIRONMENT, ()).apply(
            News(progress=read_progress(store, "r1"), confirm=confirm)
        )
    assert not (tmp_path / "told").exists()
