"""Hostile and unlucky repositories: one attempt leaves something, and only that attempt suffers.

Each case goes through one attempt and the gate, beside a good one that lands, and then through
`weft clean`. The bound in time is generous: it is there to catch what hangs.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import psutil
import pytest

from end_to_end.run_project import RunProject
from repositories import git
from wait_until import wait_until

BOUND = 120.0  # seconds for the run of a case, and for `weft clean` after it
ADMIN = '"$(git rev-parse --absolute-git-dir || echo missing)"'
DEEP = "import os\nfor _ in range(2500): os.mkdir('d'); os.chdir('d')"


class Case(NamedTuple):
    commands: str  # of the agent
    reason: str | None = None  # why its task is blocked; None: it lands
    stays: str | None = None  # what `weft clean` says of the workspace that it cannot free


CASES = {
    "pipe .gitignore": Case("mkfifo src/.gitignore", "src/.gitignore is a pipe"),
    "pipe .gitattributes": Case("mkfifo .gitattributes", ".gitattributes is a pipe"),
    "pipe .gitmodules": Case("mkfifo .gitmodules", ".gitmodules is a pipe"),
    "pipe HEAD": Case(
        f"cd {ADMIN} && rm HEAD && mkfifo HEAD && cd - > /dev/null", "HEAD is a pipe"
    ),
    "pipe in the log": Case(
        f"mkdir -p {ADMIN}/logs; rm -f {ADMIN}/logs/HEAD; mkfifo {ADMIN}/logs/HEAD", "is a pipe"
    ),
    "pipe .git": Case("rm .git; mkfifo .git", ".git is a pipe"),
    "pipe in a repository inside": Case(
        "mkdir -p src/n/.git/objects src/n/.git/refs; mkfifo src/n/.git/HEAD", "HEAD is a pipe"
    ),
    "pipe in a repository elsewhere": Case(
        "mkdir -p ../away/objects ../away/refs; mkfifo ../away/HEAD; mkdir src/n;"
        ' echo "gitdir: $PWD/../away" > src/n/.git',
        "HEAD is a pipe",
    ),
    "pipe of any name": Case("mkfifo src/pipe"),
    "deep": Case(
        f"(cd src; {shlex.quote(sys.executable)} -c {shlex.quote(DEEP)})",
        "200 directories deep",
        "200 directories deep",
    ),
    "sparse and huge": Case(
        "truncate -s 60G src/huge",
        "src/huge has 61440 MB, more than max_file_mb = 100 of [workspace] allows",
        "max_file_mb",
    ),
    "staged and missing": Case(
        "git update-index --add --cacheinfo 100644,1234567890123456789012345678901234567890,src/g"
    ),
    "commit of what is missing": Case(
        'git reset -q --soft "$(git -c user.name=p -c user.email=p commit-tree -m x -p HEAD'
        ' "$(printf'
        " '100644 blob 1234567890123456789012345678901234567890\\tx\\n'"
        ' | git mktree --missing)")"'
    ),
    "links in a circle": Case("ln -s . src/loop; ln -s b src/a; ln -s a src/b"),
    "names of directories": Case("mkdir src/.gitignore src/.gitattributes; touch src/.gitignore/x"),
}


def agent(case: Case) -> str:
    return f"cat > /dev/null; {case.commands} && echo x > src/hostile"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_one_attempt_leaves_concerns_that_attempt_alone(
    project: RunProject, case: Case
) -> None:
    project.shell("hostile", agent(case))
    project.commit()
    project.plan.write_text(
        "## Phase 1: All\n<!-- execution: parallel -->\n"
        "- [ ] Leave something\n  <!-- id: hostile; files: src/**; agent: hostile -->\n"
        "- [ ] Do something\n  <!-- id: fine; files: good/fine -->\n  - script: write good/fine x\n"
    )
    began = time.monotonic()
    project.run("plan.md", code=0 if case.reason is None else 1)
    assert time.monotonic() - began < BOUND
    assert project.states()["fine"] == "done"
    assert project.landed("good/fine") == "x\n"
    if case.reason is None:
        assert project.states()["hostile"] == "done"
        assert project.landed("src/hostile") == "x\n"
    else:
        assert project.states()["hostile"] == "blocked"
        assert case.reason in project.reason("hostile")
        assert "src/hostile" not in project.tree_listing()
    if case.reason is not None:
        assert project.weft("cancel", project.run_id()).returncode == 0
    began = time.monotonic()
    cleaned = project.weft("clean", "--older-than", "0d")
    assert time.monotonic() - began < BOUND
    # As a person would: what lies that deep is too much for `shutil`.
    deep = project.root.parent.glob(f"{project.root.name}.weft/weft-*/src/d")
    subprocess.run(["rm", "-rf", *deep], check=True)
    assert cleaned.returncode == 0, cleaned.stderr
    git(project.root, "gc", "--quiet", "--prune=now")
    if case.stays is None:
        project.assert_nothing_left()
    else:
        [line] = [one for one in cleaned.stdout.splitlines() if case.stays in one]
        assert line.startswith("kept")
    git(project.root, "fsck", "--no-dangling", "--no-progress")


HANGING = """#!/bin/sh
case "$PWD $*" in
*.weft/weft-*ls-files*-o*) [ -e "$HANG" ] && exec sleep 1000 ;;
esac
PATH="${PATH#*:}" exec git "$@"
"""


def start_hanging(project: RunProject, *arguments: str) -> subprocess.Popen[str]:
    """A run whose git never answers when it looks at what an agent left."""
    programs = project.root.parent / "programs"
    programs.mkdir()
    (programs / "git").write_text(HANGING)
    (programs / "git").chmod(0o755)
    hang = project.root.parent / "hang"
    project.shell("hostile", f"cat > /dev/null; touch {hang}; echo x > src/hostile")
    project.commit()
    project.plan.write_text(
        "- [ ] Leave something\n  <!-- id: hostile; files: src/**; agent: hostile -->\n"
    )
    path = f"{programs}:{project.environment['PATH']}"
    process = project.start("run", "plan.md", *arguments, PATH=path, HANG=str(hang))
    wait_until(lambda: hangs(process), "git hangs")
    return process


def hangs(process: subprocess.Popen[str]) -> bool:
    for one in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has ended just now
            if one.cmdline() == ["sleep", "1000"]:
                return True
    return False


def test_cancel_ends_a_run_whose_git_hangs_over_an_agents_files(project: RunProject) -> None:
    process = start_hanging(project)
    assert project.weft("cancel", project.run_id()).returncode == 0
    wait_until(lambda: not hangs(process), "git is broken off", BOUND)
    (project.root.parent / "hang").unlink()
    process.communicate(timeout=BOUND)
    assert project.states() == {"hostile": "cancelled"}


def test_two_interrupts_end_a_run_whose_git_hangs_and_the_next_goes_on(project: RunProject) -> None:
    process = start_hanging(project)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)  # two at one moment are one
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=BOUND)
    project.run("--resume", project.run_id())
    assert project.landed("src/hostile") == "x\n"


def test_what_landed_leaves_no_archive_behind(project: RunProject) -> None:
    project.plan.write_text(
        "- [ ] One\n  <!-- id: one; files: src/one -->\n  - script: write src/one 1\n"
        "- [ ] Two\n  <!-- id: two; files: src/two -->\n  - script: write src/two 2\n"
    )
    project.run("plan.md")
    [row] = project.rows("SELECT candidate FROM attempts WHERE task = 1")
    kept = f"refs/weft/archive/{project.run_id()}/one/1/{row['candidate']}"
    git(project.root, "update-ref", kept, str(row["candidate"]))  # as an earlier weft did
    assert project.weft("clean").returncode == 0
    assert git(project.root, "for-each-ref", "refs/weft/archive", "refs/weft/work") == ""
    git(project.root, "gc", "--quiet", "--prune=now")
    assert project.weft("verify", project.run_id()).returncode == 0
    project.assert_nothing_left()


def test_a_line_of_many_kilobytes_is_shown_short(project: RunProject) -> None:
    project.plan.write_text(f"- [ ] {'x' * 50_000}\n  <!-- id: one; files: src/one -->\n")
    project.run("plan.md")
    told = project.weft("why", "one")
    assert told.returncode == 0
    assert max(map(len, told.stdout.splitlines())) < 4_000
    assert told.stdout.splitlines()[0].endswith("x…")
