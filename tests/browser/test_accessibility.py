"""Names, roles, headings and contrast of every view, in light and dark; without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browser.page_stage import PageStage, page_stage
from browser.screenshots import SHOWN, fill

CHECKS = Path(__file__).with_name("accessibility.js").read_text()


@pytest.fixture(scope="module")
def stage(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageStage]:
    with page_stage(browser, tmp_path_factory.mktemp("shown"), "--slots", "3") as started:
        fill(started)
        yield started


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_has_names_roles_and_contrast(stage: PageStage, scheme: str) -> None:
    page = stage.open()
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    problems = {}
    for view in SHOWN:
        stage.go(page, view)
        expect(page.locator("h1")).to_be_visible()
        page.evaluate("document.querySelectorAll('main details').forEach(e => { e.open = true })")
        if found := page.evaluate(CHECKS):
            problems[view] = found
    assert problems == {}
    page.close()
