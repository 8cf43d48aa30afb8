"""Notifications: the command of `[notify]`, run when a run has ended or needs a person.

The command gets a summary as JSON on standard input, with WEFT_RUN and WEFT_EVENT. It runs at least
once for each message: the message counts as sent when the command has ended, so a worker that dies
before that lets the next worker send it again. A command that fails is not repeated.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from weft.config import NotifySettings
from weft.errors import WeftError
from weft.git import common_directory
from weft.git.disk import scratch_directory
from weft.process.commands import run_logged
from weft.runs.progress import RunProgress, summary
from weft.worker.projections import News

log = logging.getLogger(__name__)

ENDED: Final = "run_ended"
PERSON_NEEDED: Final = "person_needed"


class Notifications:
    """The messages about a run. Remembers the questions that were sent."""

    def __init__(
        self,
        settings: NotifySettings,
        root: Path,
        environment: Mapping[str, str],
        asked: Iterable[str],
    ) -> None:
        self._settings = settings
        self._root = root
        self._environment = environment
        self._asked = set(asked)

    def wants(self, progress: RunProgress, changed: bool) -> bool:
        return progress.ended or changed or _questions(progress) != self._asked

    def apply(self, news: News) -> Sequence[str]:
        progress = news.progress
        questions = _questions(progress)
        event = ENDED if progress.ended else PERSON_NEEDED if questions - self._asked else None
        if event is not None:
            news.confirm()
            send(
                self._settings,
                event,
                progress.run.id,
                summary(progress),
                root=self._root,
                environment=self._environment,
            )
        self._asked = questions
        return sorted(questions)


def _questions(progress: RunProgress) -> set[str]:
    return {str(need) for need in progress.questions}


def send(
    settings: NotifySettings,
    event: str,
    run: str,
    summary: Mapping[str, Any],
    *,
    root: Path,
    environment: Mapping[str, str],
) -> bool:
    """Run the command; return whether it ended well. Log a warning if it did not."""
    assert settings.command is not None
    with scratch_directory(common_directory(root)) as place:
        output = place / "output"
        try:
            status = run_logged(
                settings.command,
                directory=root,
                environment={**environment, "WEFT_RUN": run, "WEFT_EVENT": event},
                log=output,
                seconds=settings.timeout,
                input=json.dumps({"event": event, **summary}, ensure_ascii=False).encode(),
            )
        except (WeftError, OSError) as error:
            log.warning("the notification was not sent: %s", error)
            return False
        if status == 0:
            return True
        how = f"took more than {settings.timeout:.0f} s" if status is None else f"exit {status}"
        log.warning("the command of [notify] failed (%s): %s", how, _last_line(output))
        return False


def _last_line(path: Path) -> str:
    lines = path.read_bytes()[-2000:].decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
