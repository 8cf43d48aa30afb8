"""The page: its size, the time from an event to the screen, the memory of a tab, rendering."""

from __future__ import annotations

import gzip
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from msgspec.structs import replace
from playwright.sync_api import CDPSession, Page, sync_playwright

from bench.figures import figure, median_ratio
from bench.serving import Served, ask, request, served
from bench.stores import fill, tasks
from weft.demo.shop import PLAN_RUN, make_shop, run_silently
from weft.model import HUMAN, NewTask
from weft.store import Store, open_store
from weft.store.database import Transaction
from weft.store.store import default_url
from weft.store.tasks import skip, submit
from weft.store.tokens import create_page_code

_SHELL = ("/", "/assets/page.js", "/assets/page.css", "/assets/icon.svg")
_ROUNDS = 15
_BLOCK = 50  # events at once


@figure("page_first_kb", "kB", at_most=60)
def page_first_kb() -> float:
    """Everything transferred, compressed, until the first view of the demo's run is shown."""
    with tempfile.TemporaryDirectory() as directory:
        shop = make_shop(Path(directory))
        run_silently(shop, *PLAN_RUN)
        with served(default_url(shop / ".git")) as server:
            paths = (*_SHELL, "/page/needs", "/page/count", "/page/now")
            return sum(_transferred(server, path) for path in paths) / 1000


def _transferred(server: Served, path: str) -> int:
    asked = request("GET", path, server.token).replace(
        b"Host: localhost", b"Host: localhost\r\nAccept-Encoding: gzip\r\nConnection: close"
    )
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(asked)
        size = 0
        while data := connection.recv(1 << 16):
            size += len(data)
    return size


@contextmanager
def _opened() -> Iterator[tuple[Page, Store]]:
    """The page of a server of its own in Chromium, live."""
    chromium = shutil.which("chromium")
    assert chromium is not None, "the figures of the page need the program chromium"
    with served() as server, open_store(server.url) as store, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        code = create_page_code(store, scopes=("admin",), seconds=60, now=time.time())
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.port}/#code={code}")
        page.locator("#stream", has_text="live").wait_for()
        page.locator("article").wait_for()
        yield page, store
        browser.close()


@figure("page_event_ms", "ms", at_most=500)
def page_event_ms() -> float:
    """From the commit of an event to the change on the screen."""
    with _opened() as (page, store):
        return median(_time_event(page, store) for _ in range(_ROUNDS))


def _time_event(page: Page, store: Store) -> float:
    page.evaluate(
        "() => { window.changed = new Promise((resolve) => new MutationObserver("
        "() => resolve(performance.timeOrigin + performance.now())"
        ").observe(document.getElementById('view'), {childList: true, subtree: true})); }"
    )
    time.sleep(0.5)  # an earlier update must have ended
    began = time.time()
    task = submit(store, NewTask(name="q", text="A question", agent=HUMAN), repo="r", now=began)
    changed = float(page.evaluate("() => window.changed"))
    page.locator(f"#need-question-{task}").wait_for()
    skip(store, task, now=time.time())
    page.locator(f"#need-question-{task}").wait_for(state="detached")
    return changed - began * 1000


@figure("page_heap_growth", "heap after 10,000 events / after 1,000", at_most=1.2)
def page_heap_growth() -> float:
    with _opened() as (page, store):
        session = page.context.new_cdp_session(page)
        page.goto(page.url.partition("#")[0] + "#/limits")
        page.locator("h1", has_text="Limits").wait_for()
        _tell(store, 1_000)
        early = _heap(page, session)
        _tell(store, 9_000)
        return _heap(page, session) / early


def _tell(store: Store, number: int) -> None:
    """Write events in small groups, so that the page brings itself up to date many times."""
    for _ in range(number // _BLOCK):
        store.write(_write_block)
        time.sleep(0.02)


def _write_block(tx: Transaction) -> None:
    for _ in range(_BLOCK):
        tx.event("limit_set", now=time.time(), resource="llm", capacity=1, before=1)


def _heap(page: Page, session: CDPSession) -> float:
    time.sleep(2)  # the last update
    page.locator("#stream", has_text="live").wait_for()
    session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"])


@figure("page_render_ms_2000", "of the JSON answers", at_most=2)
def page_render_ms_2000() -> float:
    """The view Now of 2,000 tasks, against the list of the same tasks as JSON, in pages of 200."""
    with served() as server:
        with open_store(server.url) as store:
            fill(store, [replace(task, agent="a") for task in tasks(2_000)])
        return median_ratio(lambda: _time_now(server), lambda: _time_json(server))


def _time_now(server: Served) -> float:
    began = time.perf_counter()
    shown = ask(server.port, "GET", "/page/now", token=server.token)
    took = time.perf_counter() - began
    assert b"(2000)" in (gzip.decompress(shown) if shown[:2] == b"\x1f\x8b" else shown)
    return took


def _time_json(server: Served) -> float:
    began = time.perf_counter()
    after = 0
    for _ in range(10):
        path = f"/v1/tasks?most=200&after={after}"
        ask(server.port, "GET", path, token=server.token)
        after += 200
    return time.perf_counter() - began
