"""The end of a container, which an engine keeps outside the tree of the wrapper's processes."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

_SECONDS = 60
_GONE = ("no such container", "no container with name")


def end_container(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Run the command that removes a container; return False if the container may still run.

    Without a command there is no container.
    """
    if not command:
        return True
    try:
        done = subprocess.run(
            list(command),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 or any(word in done.stderr.lower() for word in _GONE)
