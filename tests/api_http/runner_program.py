"""A runner as an agent's owner would write it: joins, polls while it has room, starts a process
for each task, and says how each ended.

    runner_program.py URL TOKEN NAME DIRECTORY

A task's process notes its pid in DIRECTORY and ends when a file named after the task is there. At
SIGTERM the runner takes nothing more, lets what runs end, and leaves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import httpx

_WORK = """
import os, pathlib, sys, time
place, task = pathlib.Path(sys.argv[1]), sys.argv[2]
(place / f"{task}.pid").write_text(str(os.getpid()))
while not (place / f"{task}.end").exists():
    time.sleep(0.02)
"""


def main(url: str, token: str, name: str, directory: str) -> None:
    leaving: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: leaving.append(number))
    running: dict[int, tuple[subprocess.Popen[bytes], int]] = {}
    given = os.environ.get("MAX_CONCURRENT_TASKS")
    about: dict[str, Any] = {"name": name} | ({"max_tasks": int(given)} if given else {})
    with httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60
    ) as client:
        agent = client.post("/v1/agents", json=about).raise_for_status().json()
        while running or not leaving:
            for task, (process, fence) in list(running.items()):
                if process.poll() is not None:
                    end = {
                        "fence": fence,
                        "status": "completed" if not process.returncode else "failed",
                    }
                    client.post(f"/v1/tasks/{task}/finish", json=end).raise_for_status()
                    del running[task]
            if leaving or len(running) >= agent["capacity"]["max"]:
                time.sleep(0.02)
                continue
            found = client.post("/v1/poll", json={"wait_ms": 50 if running else 200})
            trigger = found.raise_for_status().json()["trigger"]
            if trigger and trigger["kind"] == "task":
                task, fence = trigger["task"]["task"], trigger["task"]["fence"]
                command = [sys.executable, "-c", _WORK, directory, str(task)]
                running[task] = (subprocess.Popen(command), fence)
        client.post(f"/v1/agents/{agent['id']}/close", json={}).raise_for_status()


if __name__ == "__main__":
    main(*sys.argv[1:])
