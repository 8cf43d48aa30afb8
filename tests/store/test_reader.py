"""A second connection for looks that wait for nobody."""

from __future__ import annotations

import threading

from store_helpers import put, url
from wait_until import PATIENCE
from weft.store import Store
from weft.store.database import Transaction
from weft.store.store import open_reader
from weft.store.tasks import get_task

__all__ = ["url"]


def test_a_reader_sees_what_is_committed_while_somebody_writes(store: Store) -> None:
    reader = open_reader(store)
    if reader is None:
        assert not store.url.startswith("sqlite")
        return
    task = put(store, "a")
    writes, ends = threading.Event(), threading.Event()

    def work(tx: Transaction) -> None:
        tx.run("set_drained", since=1.0)
        writes.set()
        assert ends.wait(PATIENCE)

    writer = threading.Thread(target=lambda: store.write(work))
    writer.start()
    assert writes.wait(PATIENCE)
    try:
        assert get_task(reader, task).name == "a"
        assert reader.read(lambda tx: tx.value("drained")) is None
    finally:
        ends.set()
        writer.join()
    assert reader.read(lambda tx: tx.value("drained")) == 1.0
    reader.close()
