"""Advice for waits that a worker on another machine ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from weft.host_labels import worker_command
from weft.model import Wait


def list_advice(waits: Iterable[Wait], find_server: Callable[[], str]) -> Iterator[str]:
    """Yield the command that starts each missing worker, with the address of a server if any."""
    for wait in waits:
        if wait.kind == "label":
            labels = wait.subject.split(",")
            command = worker_command(labels, find_server())
            noun = "label" if len(labels) == 1 else "labels"
            yield f"start it on a machine that has the {noun}: `{command}`"
