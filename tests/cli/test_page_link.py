"""`--open`: a browser gets a link with a one-use code, and no token."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import httpx
import pytest

from cli.shell import TRY, answer, make_project, started, wait_line, weft
from repositories import commit_all
from wait_until import wait_until

PLAN = """# P

## Phase 1: All

- [ ] Task 1.1: First
  <!-- files: a.txt -->
  script: write a.txt x
"""


@pytest.fixture
def browser(tmp_path: Path) -> tuple[Path, str]:
    """A file with the link that was opened, and the program that writes it."""
    program, link = tmp_path / "browser", tmp_path / "link"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > "{link}.new" && mv "{link}.new" "{link}"\n')
    program.chmod(0o755)
    return link, f"{program} %s"


def test_serve_opens_the_page_with_a_code_that_becomes_a_token(
    tmp_path: Path, browser: tuple[Path, str]
) -> None:
    link, program = browser
    project = make_project(tmp_path / "project")
    with started(
        project, "serve", "--no-work", "--open", "--bind", "127.0.0.1:0", BROWSER=program
    ) as process:
        wait_line(process, "weft serves")
        wait_until(link.exists)
        url, _, code = link.read_text().partition("/#code=")
        token = (project / ".git" / "weft" / "server.token").read_text().strip()
        assert token not in link.read_text()
        answered = httpx.post(f"{url}/exchange", headers={"X-Weft-Code": code})
        assert answered.json()["token"] not in (token, code)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert not (project / ".git" / "weft" / "server.url").exists()


def test_serve_prints_the_link_where_no_browser_is(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    nothing = {"BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    with started(
        project, "serve", "--no-work", "--open", "--bind", "127.0.0.1:0", **nothing
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "no browser opened" in line
        assert "/#code=" in line


def test_run_opens_the_page_of_a_server_that_goes_on(
    tmp_path: Path, browser: tuple[Path, str]
) -> None:
    link, program = browser
    project = make_project(tmp_path / "project", implement=TRY)
    (project / "plan.md").write_text(PLAN)
    commit_all(project, "plan")
    done = weft(project, "run", "plan.md", "--open", "--no-tty", BROWSER=program)
    assert done.returncode == 0, done.stderr
    told = re.search(r"process (\d+) serves", done.stderr)
    assert told is not None, done.stderr
    url, _, code = link.read_text().partition("/#code=")
    try:
        assert httpx.post(f"{url}/exchange", headers={"X-Weft-Code": code}).status_code == 200
        assert answer(project, "open", "--json")["url"].startswith(f"{url}/#code=")
    finally:
        os.kill(int(told[1]), signal.SIGTERM)
    wait_until(lambda: not (project / ".git" / "weft" / "server.url").exists())
