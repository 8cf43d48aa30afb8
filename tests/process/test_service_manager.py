"""Readiness, as systemd is told."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from end_to_end.run_project import RunProject
from wait_until import PATIENCE
from weft.process.service_manager import notify_ready


def listen(address: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.bind(address)
    listening.settimeout(PATIENCE)
    return listening


def test_readiness_is_told_once_and_not_by_agents(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with listen(address) as listening:
        environment = {"NOTIFY_SOCKET": address, "HOME": "/"}
        notify_ready(environment)
        notify_ready(environment)
        assert listening.recv(100) == b"READY=1"
        assert environment == {"HOME": "/"}
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.recv(100)


def test_a_name_outside_of_the_file_system_is_understood() -> None:
    name = f"weft-test-{os.getpid()}"
    with listen(f"\0{name}") as listening:
        notify_ready({"NOTIFY_SOCKET": f"@{name}"})
        assert listening.recv(100) == b"READY=1"


@pytest.mark.parametrize("command", [("worker",), ("serve", "--no-work", "--bind", "127.0.0.1:0")])
def test_a_service_is_ready_when_it_takes_work(tmp_path: Path, command: tuple[str, ...]) -> None:
    project = RunProject(tmp_path)
    address = str(tmp_path / "notify")
    with listen(address) as listening:
        service = project.start(*command, NOTIFY_SOCKET=address)
        try:
            assert listening.recv(100) == b"READY=1"
            service.send_signal(signal.SIGTERM)
            assert service.wait(PATIENCE) == 0
        finally:
            project.close()
