"""A real `weft serve` with scripted agents, and a real Chromium on its page."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from api_http.server_process import Server, serving
from cli.shell import TRY
from repositories import commit_all
from wait_until import PATIENCE
from weft.store.page_codes import create_page_code

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
expect.set_options(timeout=PATIENCE * 1000)
SETTINGS = "[tuning]\nheartbeat = 0.2\n"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the Chromium of this machine; a test is skipped on a machine without it."""
    if CHROMIUM is None:
        pytest.skip("needs the program chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield browser
        browser.close()


@dataclass
class PageStage:
    """A server and a browser of its own person."""

    server: Server
    context: BrowserContext

    def link(self, *scopes: str, seconds: float = 60.0) -> str:
        with self.server.open_store() as store:
            code = create_page_code(
                store, scopes=scopes or ("admin",), seconds=seconds, now=time.time()
            )
        return f"{self.server.url}/#code={code}"

    def open(self, address: str = "", *scopes: str) -> Page:
        """Open the page with a new link, then go to an address on it."""
        page = self.new_page()
        page.goto(self.link(*scopes))
        expect(page.locator("#stream")).to_have_text("live")
        if address:
            self.go(page, address)
        return page

    def new_page(self) -> Page:
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        return page

    def go(self, page: Page, address: str) -> None:
        page.goto(f"{self.server.url}/#/{address}")
        page.wait_for_selector("article")

    def run(self, plan: str) -> str:
        """Submit a plan; return the run."""
        sent = self.server.client().post("/v1/runs", {"plan": plan})
        return str(sent["submitted"]["run"])


@contextmanager
def page_stage(
    browser: Browser,
    directory: Path,
    *arguments: str,
    settings: str = SETTINGS,
    agents: Mapping[str, str] | None = None,
) -> Iterator[PageStage]:
    url = f"sqlite:///{directory / 'weft.db'}"
    known = {"implement": TRY, "other": TRY, **(agents or {})}
    options = arguments or ("--slots", "2")
    with serving(directory, url, *options, settings=settings, agents=known) as server:
        commit_all(server.root, "agents")
        context = browser.new_context(viewport={"width": 1400, "height": 900})
        try:
            yield PageStage(server, context)
        finally:
            context.close()
