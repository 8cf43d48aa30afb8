"""Messages to people: what they carry, and that their failure is a warning and takes no time."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from weft import config
from weft.project.project import Project
from weft.worker.projections.notifications import ENDED, Notifier, send


def project(root: Path, settings: str) -> Project:
    return Project(
        root=root,
        config=config.parse(f"[notify]\n{settings}\n", {}),
        environment={"PATH": "/usr/bin:/bin"},
        store_url="",
    )


@pytest.mark.parametrize(
    "command",
    [
        "'echo $WEFT_RUN $WEFT_EVENT > told; cat >> told'",
        "['sh', '-c', 'echo $WEFT_RUN $WEFT_EVENT > told; cat >> told']",
    ],
)
def test_a_message_carries_the_run_the_event_and_a_summary(tmp_path: Path, command: str) -> None:
    told = {"needs_you": ["häh?"]}
    assert send(project(tmp_path, f"command = {command}"), ENDED, "plan-1", told)
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
        assert not send(project(tmp_path, settings), ENDED, "r", {})
    for word in words:
        assert word in caplog.text


def test_nobody_waits_for_a_messenger_but_the_end(tmp_path: Path) -> None:
    """One that does not read what it is given is no trouble either."""
    notifier = Notifier(
        project(tmp_path, "command = 'until test -e go; do sleep 0.02; done; echo x >> told'")
    )
    for _ in range(2):
        notifier.tell(ENDED, "r", {"much": "x" * 1_000_000})
    (tmp_path / "go").touch()
    notifier.close()
    assert (tmp_path / "told").read_text() == "x\nx\n"


def test_without_a_command_nobody_is_told(tmp_path: Path) -> None:
    notifier = Notifier(project(tmp_path, ""))
    notifier.tell(ENDED, "r", {})
    notifier.close()
    assert list(tmp_path.iterdir()) == []
