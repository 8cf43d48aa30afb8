"""Real processes, killed anywhere, and the named scenarios around locks and records."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from forked_python import ForkedPython
from repositories import git, is_kept, make_repository, prepare, write
from user_checkout import fingerprint
from wait_until import wait_until
from weft.errors import BranchTaken, WorkspaceError
from weft.process.process_table import find_process
from weft.workspace import Workspace, branch_ref, changes, clean
from weft.workspace.locks import Lock
from weft.workspace.workspace_records import Record, Slot, WorkspacePhase, WorkspacePool

PROGRAM = Path(__file__).with_name("attempt_program.py")
KILLS = 60 if os.environ.get("WEFT_CHAOS") else 8


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


def start(
    root: Path, name: str, notes: Path, seed: int, **variables: str
) -> subprocess.Popen[bytes]:
    return ForkedPython[bytes](
        [sys.executable, str(PROGRAM), str(root), name, str(notes), str(seed)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            **variables,
        },
        stderr=subprocess.PIPE,
    )


def kill_somewhere(root: Path, notes: Path, name: str, chance: random.Random) -> None:
    """Start a process, let it get going, and kill it at some point."""
    before = notes.stat().st_size if notes.exists() else 0
    process = start(root, name, notes, chance.randrange(1000))
    deadline = time.monotonic() + 60
    while (not notes.exists() or notes.stat().st_size == before) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(chance.random() * 0.8)
    process.kill()
    errors = process.communicate()[1]
    assert process.returncode == -signal.SIGKILL, errors.decode()


@pytest.mark.chaos
def test_killed_anywhere_nothing_is_lost_and_the_next_one_copes(root: Path, tmp_path: Path) -> None:
    chance = random.Random(4)
    human = tmp_path / "human"
    git(root, "worktree", "add", "-q", "-b", "human", str(human))
    write(human, a="human's\n")
    before = fingerprint(root)
    with ThreadPoolExecutor(2) as both:
        jobs = [
            both.submit(kill_somewhere, root, tmp_path / f"notes{number % 2}", f"k{number}", one)
            for number, one in ((n, random.Random(chance.random())) for n in range(KILLS))
        ]
        for job in jobs:
            job.result()
    wait_until(lambda: not any(item.why == "it is in use" for item in clean(root).kept))
    once = state(root)
    assert clean(root).freed == ()
    assert state(root) == once, "recovering twice is recovering once"
    texts = [line for notes in tmp_path.glob("notes*") for line in notes.read_text().splitlines()]
    assert len(texts) >= KILLS
    lost = [text for text in texts if not is_kept(root, f"{text}\n")]
    assert lost == []
    assert fingerprint(root) == before
    assert (human / "a").read_text() == "human's\n"
    assert WorkspacePool(common=root / ".git").registered() == []
    assert [entry.name for entry in (root / ".git" / "worktrees").iterdir()] == ["human"]
    git(root, "fsck", "--connectivity-only")
    with prepare(root) as place:
        assert changes(place).changes == ()


def state(root: Path) -> tuple[str, list[str]]:
    files = (root / ".git" / "weft").rglob("*")
    return git(root, "for-each-ref"), sorted(str(path) for path in files)


def test_many_starts_at_once_all_succeed_and_share_nothing(root: Path) -> None:
    with ThreadPoolExecutor(16) as threads:
        places = list(threads.map(lambda number: prepare(root, attempt=number), range(32)))
    assert len({place.path for place in places}) == 32
    for number, place in enumerate(places):
        assert git(place.path, "rev-parse", "HEAD") == git(
            root, "rev-parse", branch_ref("r", "t", number)
        )
        assert git(place.path, "status", "--porcelain") == ""
        place.close()


def test_one_branch_asked_for_by_many_at_once_goes_to_one(root: Path) -> None:
    def ask(_: int) -> Workspace | None:
        try:
            return prepare(root)
        except BranchTaken:
            return None

    with ThreadPoolExecutor(8) as threads:
        got = [place for place in threads.map(ask, range(8)) if place is not None]
    assert len(got) == 1
    assert git(got[0].path, "rev-parse", "--symbolic-full-name", "HEAD").strip() == "HEAD"


@pytest.mark.parametrize(
    ("phase", "left"),
    [
        *((WorkspacePhase.MAKING, left) for left in ("nothing", "branch", "tree", "lock files")),
        *((WorkspacePhase.READY, left) for left in ("nothing", "tree", "entry", "index")),
        *((WorkspacePhase.FREE, left) for left in ("nothing", "entry", "index", "lock files")),
    ],
)
def test_whatever_a_death_left_is_started_over_from(
    root: Path, phase: WorkspacePhase, left: str
) -> None:
    """Every state between two steps of prepare, with this or that not there yet."""
    place = prepare(root)
    slot, record = WorkspacePool(common=root / ".git").registered()[0]
    if left in ("nothing", "tree"):
        subprocess.run(["rm", "-rf", str(place.path)], check=True)
    if left in ("nothing", "entry"):
        subprocess.run(["rm", "-rf", str(place.admin)], check=True)
    if left in ("nothing", "branch"):
        git(root, "update-ref", "-d", place.branch)
    if left in ("nothing", "index"):
        slot.index.unlink()
    if left == "lock files":
        for lock in (slot.directory / "index.lock", place.admin / "index.lock"):
            lock.write_text("")
    branch = None if phase is WorkspacePhase.FREE else record.branch
    slot.write_record(
        Record(**{**msgspec.structs.asdict(record), "phase": phase, "branch": branch})
    )
    if phase is WorkspacePhase.FREE and left != "branch":
        git(root, "update-ref", "-d", place.branch)
    place.close()
    for attempt in (1, 2):
        with prepare(root, attempt=attempt) as again:
            assert git(again.path, "status", "--porcelain", "--ignored") == ""
            assert git(again.path, "rev-parse", "--symbolic-full-name", "HEAD").strip() == "HEAD"
    clean(root)
    assert WorkspacePool(common=root / ".git").registered() == []
    assert list((root / ".git").glob("worktrees/*")) == []


CONTENDERS = 8


class ByName(Lock):
    """A file with its owner's process id, made anew by whoever finds that process dead.

    All find it dead; each removes what another just made.
    """

    all_saw_it_dead = threading.Barrier(CONTENDERS)

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def attempt(self) -> bool:
        if find_process(int(self._path.read_text())) is not None:
            return False
        self.all_saw_it_dead.wait()
        self._path.unlink(missing_ok=True)
        self._path.write_text(str(os.getpid()))
        return True


def check_stale_lock(path: Path, kind: type[Lock]) -> None:
    """However many find a dead owner's lock, one gets it, and no time must pass."""
    hold = (
        "import fcntl, os, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, 2); "
        "file.write(str(os.getpid())); file.flush(); print(1); input()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-uc", hold, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"1\n"
    contenders = [kind(path) for _ in range(CONTENDERS)]
    early = contenders[0].attempt()
    owner.kill()
    owner.communicate()
    with ThreadPoolExecutor(CONTENDERS) as threads:
        got = list(threads.map(kind.attempt, contenders))
    for one in contenders:
        one.close()
    assert not early
    assert sum(got) == 1


def test_stale_lock_two_cleaners(tmp_path: Path) -> None:
    check_stale_lock(tmp_path / "lock", Lock)
    with pytest.raises(AssertionError):
        check_stale_lock(tmp_path / "weak", ByName)


def test_a_git_that_outlives_weft_keeps_the_workspace_taken(root: Path, tmp_path: Path) -> None:
    """Killed in the middle of a checkout, weft leaves a git behind that still writes files.

    Weakened: were the lock weft's alone, it would be free at once.
    """
    real = shutil.which("git")
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(
        f'#!/bin/sh\nif [ "$1" = read-tree ]; then echo $$ > {tmp_path}/at; '
        f'while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; fi\nexec {real} "$@"\n'
    )
    slow.chmod(0o755)
    path = f"{slow.parent}{os.pathsep}{os.environ['PATH']}"
    process = start(root, "k", tmp_path / "notes", 1, PATH=path)
    wait_until((tmp_path / "at").exists)
    process.kill()
    process.communicate()
    try:
        assert [item.why for item in clean(root).kept] == ["it is in use"]
        with prepare(root, attempt=2) as other:
            assert other.slot.number == 2
    finally:
        (tmp_path / "go").touch()
    wait_until(lambda: clean(root).kept == ())


Write = Callable[[Slot, Record, Callable[[], None]], None]


def in_place(slot: Slot, record: Record, wait_for_reader: Callable[[], None]) -> None:
    """Opened for writing and then written: a reader meets the empty file in between."""
    with (slot.directory / "record.json").open("w") as file:
        wait_for_reader()
        json.dump(msgspec.structs.asdict(record), file)


def check_window(root: Path, write: Write) -> None:
    """A record is never seen empty or half, whoever reads while it is written."""
    with prepare(root):
        slot, record = WorkspacePool(common=root / ".git").registered()[0]
        done = threading.Event()
        seen: list[Record | WorkspaceError | None] = []

        def read() -> None:
            while not done.is_set():
                try:
                    seen.append(slot.find_record())
                except WorkspaceError as damaged:
                    seen.append(damaged)

        def wait_for_reader() -> None:
            before = len(seen)
            wait_until(lambda: len(seen) > before + 1)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for _ in range(300):
                write(slot, record, wait_for_reader)
                if seen and seen[-1] != record:
                    break
        finally:
            done.set()
            reader.join()
    assert seen
    assert all(one == record for one in seen)


def test_create_then_write_window(tmp_path: Path) -> None:
    check_window(
        make_repository(tmp_path / "real"), lambda slot, record, _: slot.write_record(record)
    )
    with pytest.raises(AssertionError):
        check_window(make_repository(tmp_path / "weak"), in_place)
