"""Word to the service manager (systemd, `Type=notify`) that this process is ready."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping


def notify_ready(environment: MutableMapping[str, str] = os.environ) -> None:
    """Report readiness at NOTIFY_SOCKET, and remove the variable: agents must not report for us."""
    address = environment.pop("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # a name outside of the file system
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
        sending.connect(address)
        sending.sendall(b"READY=1")
