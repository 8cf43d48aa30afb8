"""Telling people: a command of theirs, when a run has ended or needs a person.

It gets a summary as JSON on standard input, and WEFT_RUN and WEFT_EVENT. Whatever goes wrong
with it is a warning: no run waits for its messenger.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from weft.errors import WeftError
from weft.process.commands import run_logged
from weft.project.project import Project

log = logging.getLogger(__name__)

ENDED: Final = "run_ended"
PERSON_NEEDED: Final = "person_needed"


class Notifier:
    """Sends one message after the other, beside whatever else goes on."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._sender = ThreadPoolExecutor(max_workers=1, thread_name_prefix="notify")

    def tell(self, event: str, run: str, summary: Mapping[str, Any]) -> None:
        if self._project.config.notify.command is not None:
            self._sender.submit(send, self._project, event, run, summary)

    def close(self) -> None:
        """Wait for what is under way; each message has its time, and no more."""
        self._sender.shutdown()


def send(project: Project, event: str, run: str, summary: Mapping[str, Any]) -> bool:
    """Run the command of `[notify]`; whether it ended well."""
    settings = project.config.notify
    assert settings.command is not None
    told = {"event": event, **summary}
    with tempfile.TemporaryDirectory(prefix="weft-notify-") as place:
        output = Path(place) / "output"
        try:
            status = run_logged(
                settings.command,
                directory=project.root,
                environment={**project.environment, "WEFT_RUN": run, "WEFT_EVENT": event},
                log=output,
                seconds=settings.timeout,
                input=json.dumps(told, ensure_ascii=False).encode(),
            )
        except (WeftError, OSError) as error:
            log.warning("nobody was notified: %s", error)
            return False
        if status == 0:
            return True
        how = f"took more than {settings.timeout:.0f} s" if status is None else f"exit {status}"
        log.warning("the command of [notify] failed (%s): %s", how, _last_line(output))
        return False


def _last_line(path: Path) -> str:
    lines = path.read_bytes()[-2000:].decode(errors="replace").split("\n")
    return next((one.strip() for one in reversed(lines) if one.strip()), "it said nothing")
