"""The base of an attempt on a host, whose mirror is always a little behind home."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

from msgspec.structs import replace

from gate.gate_run import WORKER, Stage, drive, gate_site, run_git, task
from weft.attempt.base import choose
from weft.config import RunSettings
from weft.git.http_backend import CandidateName
from weft.project.mirror_use import MirrorUse
from weft.store.admission import admit_task
from weft.store.tasks import get_task
from weft.workspace.names import trunk_ref


class FileTransport:
    """The way home where both are directories of this machine."""

    def __init__(self, home: Path, mirror: Path) -> None:
        self.use = MirrorUse(mirror)
        self._home, self._mirror = home, mirror

    def list_kept(self) -> frozenset[str]:
        return frozenset()

    def fetch(self, run: str | None, commits: Collection[str]) -> None:
        run_git(self._mirror, "fetch", "-q", str(self._home), "+refs/heads/*:refs/heads/*")

    def push(self, commit: str, name: CandidateName) -> None:
        raise AssertionError("no attempt ends here")

    def read_settings(self) -> RunSettings:
        return RunSettings()


def test_a_commit_that_landed_since_the_fetch_is_fetched_and_tried_again(
    stage: Stage, home: Path
) -> None:
    """Without the fetch, git cannot compare the landed commit with trunk: a person was needed."""
    mirror = home / "mirror"
    stage.submit([task("a"), task("b")])
    run_git(home, "clone", "-q", "--bare", str(stage.root), str(mirror))
    run_git(mirror, "update-ref", trunk_ref(stage.run), stage.base)
    [grant] = admit_task(stage.store, WORKER, stage.numbers["b"], now=time.time())
    stage.bring("a", {"src/a": "a = 2\n"})
    drive(stage, lambda: stage.are(a="done"))
    with gate_site(stage) as site:
        transport = FileTransport(stage.root, mirror)
        host = replace(site, root=mirror, common=mirror, transport=transport)
        beginning = choose(host, get_task(stage.store, grant.task), grant)
    assert beginning.base == stage.trunk
