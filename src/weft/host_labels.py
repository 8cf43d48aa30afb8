"""Labels: words about a host, such as `gpu`, that tasks and agents may ask for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

FORM: Final = (
    "a list of labels in lower-case letters, digits, `-`, `_` and `.`, such as `gpu, arm64`"
)
"""The expected form, for errors."""

MOST: Final = 32
"""The most labels of a worker, a task or an agent."""

PATTERN: Final = r"^[a-z0-9][a-z0-9_.-]{0,39}$"

_LABEL: Final = re.compile(PATTERN)


def parse_labels(text: str) -> tuple[str, ...]:
    """Return the labels of a comma list, each once; raise `ValueError` with the expected form."""
    return check_labels(part.strip() for part in text.split(","))


def check_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels, each once; raise `ValueError` with the expected form."""
    checked = tuple(dict.fromkeys(labels))
    if len(checked) > MOST:
        raise ValueError(f"at most {MOST} labels")
    if not all(map(_LABEL.fullmatch, checked)):
        raise ValueError(FORM)
    return checked


def worker_command(labels: Iterable[str], server: str = "") -> str:
    """Return the command that starts a worker with labels, for a server if there is one."""
    words = ["weft", "worker", *(["--server", server] if server else [])]
    return " ".join([*words, "--label", ",".join(sorted(labels))])


def describe_labels(labels: Iterable[str]) -> str:
    """Return `the label gpu` or `the labels arm64, gpu`."""
    names = sorted(labels)
    return f"the label{'s' * (len(names) > 1)} {', '.join(names)}"
