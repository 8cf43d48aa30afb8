"""A real `weft serve` with scripted agents, and a real Chromium on its page."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from api_http.server_process import Server, serving
from cli.shell import TRY
from repositories import commit_all
from wait_until import PATIENCE
from weft.model import HUMAN, NewTask
from weft.store.tasks import submit
from weft.store.tokens import create_page_code

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
expect.set_options(timeout=PATIENCE * 1000)
SETTINGS = "[tuning]\nheartbeat = 0.2\npattern = 1\n"  # the first failure needs a person


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
    errors: list[str] = field(default_factory=list)  # of scripts and of the page's policy

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
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self._hear(message.type, message.text))
        return page

    def _hear(self, kind: str, text: str) -> None:
        # The browser itself reports a request that got no answer; the page says so to its reader.
        if kind == "error" and "Failed to load resource" not in text:
            self.errors.append(text)

    def person(self) -> PageStage:
        """Return the same server for another person: a browser profile of its own."""
        assert self.context.browser is not None
        context = self.context.browser.new_context(viewport={"width": 1400, "height": 900})
        return PageStage(self.server, context, self.errors)

    def ask(self, text: str) -> int:
        """Add a question to a person, without a run; return its task."""
        with self.server.open_store() as store:
            repo = str(self.server.root / ".git")
            new = NewTask(name=text, text=text, agent=HUMAN)
            return submit(store, new, repo=repo, now=time.time())

    def go(self, page: Page, address: str) -> None:
        page.goto(f"{self.server.url}/#/{address}")
        page.wait_for_selector("article")

    def run(self, plan: str, **options: object) -> str:
        """Submit a plan; return the run."""
        sent = self.server.client().post("/v1/runs", {"plan": plan, **options})
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
        stage = PageStage(server, context)
        try:
            yield stage
        finally:
            context.close()
        assert stage.errors == []
