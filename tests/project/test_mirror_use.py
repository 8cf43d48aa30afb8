"""Locks of a mirror: it is not collected while it is used, nor deleted while a worker is there."""

from __future__ import annotations

import threading
from pathlib import Path

from wait_until import PATIENCE
from weft.git.disk import delete_tree
from weft.project.mirror_use import MirrorUse, last_use, taking_mirror


def test_a_mirror_is_collected_only_while_no_worker_uses_it(tmp_path: Path) -> None:
    mine, yours = MirrorUse(tmp_path), MirrorUse(tmp_path)
    yours.hold("tasks")
    yours.hold("check 1")
    yours.drop("tasks")
    with mine.alone() as free:
        assert not free, "another worker has a check"
    yours.drop("check 1")
    with mine.alone() as free:
        assert free
    mine.hold("tasks")
    with mine.alone() as free:
        assert not free, "this worker has a task"


def test_a_worker_waits_for_the_end_of_a_collection(tmp_path: Path) -> None:
    mine, yours = MirrorUse(tmp_path), MirrorUse(tmp_path)
    held = threading.Event()

    def take_task() -> None:
        yours.hold("tasks")
        held.set()

    with mine.alone() as free:
        assert free
        worker = threading.Thread(target=take_task, daemon=True)
        worker.start()
        assert not held.wait(0.1)
    assert held.wait(PATIENCE)
    worker.join(PATIENCE)


def test_a_mirror_with_a_worker_is_not_deleted_and_a_deleted_one_is_noticed(tmp_path: Path) -> None:
    mirror = tmp_path / "m.git"
    worker = MirrorUse(mirror)
    assert worker.is_there()
    with taking_mirror(mirror) as free:
        assert not free
    worker.close()
    with taking_mirror(mirror) as free:
        assert free
        delete_tree(mirror)
    assert not worker.is_there()
    assert last_use(mirror) == 0.0
    late = MirrorUse(mirror)
    late.hold("tasks")
    assert late.is_there()
    assert last_use(mirror) > 0.0
