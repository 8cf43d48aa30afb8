"""Stop a weft process as Ctrl-Z does, at a moment at which the other processes can go on."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from databases import can_write
from weft.errors import InUse
from weft.workspace.workspace_records import WorkspacePool, registering


def stop_harmlessly(process: subprocess.Popen[bytes], url: str, root: Path) -> None:
    """Stop a process that keeps no other from writing to the store or from making a workspace."""
    while True:
        process.send_signal(signal.SIGSTOP)
        if can_write(url) and _can_make_workspaces(root):
            return
        process.send_signal(signal.SIGCONT)
        time.sleep(0.01)


def _can_make_workspaces(root: Path) -> bool:
    try:
        with registering(WorkspacePool.of(root), patience=0):
            return True
    except InUse:
        return False
