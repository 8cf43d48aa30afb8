"""A host worker that stops takes no further check."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import anyio
import pytest

from store.test_check_orders import open_gate, order
from store_helpers import url as url
from wait_until import PATIENCE
from weft import config
from weft.config import RunSettings
from weft.errors import Refused
from weft.gate.host_checks import check_for_gates
from weft.git.mirror import HomeRemote
from weft.project.worker_host import MirrorTransport
from weft.store import Store
from weft.store.check_orders import find_order, list_checks
from weft.worker.engine import open_host_site


class StoppingWorker:
    def __init__(self, stops: Callable[[], bool]) -> None:
        self.worker = "far"
        self._stops = stops
        self._draining = False

    @property
    def draining(self) -> bool:
        self._draining = self._draining or self._stops()
        return self._draining

    def occupied(self) -> AbstractContextManager[None]:
        return nullcontext()


def read_no_settings() -> RunSettings:
    raise Refused("No check may begin.")


@pytest.mark.parametrize("stops", ["before it asks", "while it takes the check"])
def test_a_worker_that_stops_takes_no_check(store: Store, tmp_path: Path, stops: str) -> None:
    number = order(store, open_gate(store))

    def is_stopping() -> bool:
        return stops == "before it asks" or find_order(store, "far") is None

    home = HomeRemote(
        url=str(tmp_path / "home.git"), token_file=tmp_path / "token", helper=tmp_path / "helper"
    )
    transport = MirrorTransport(tmp_path / "mirror.git", home, read_no_settings, lambda commits: [])
    settings = config.parse("", {})
    opened = open_host_site(
        store, transport.mirror, "r", "far", transport, settings, {}, checks=True
    )

    async def check() -> None:
        with anyio.fail_after(PATIENCE), opened as site:
            await check_for_gates(site, StoppingWorker(is_stopping))

    anyio.run(check)
    assert find_order(store, "far") == number, "another worker can take it"
    assert list_checks(store, "run") == []
