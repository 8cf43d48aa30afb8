"""A browser for the tests of a module; each test has a context, as a person of its own.

Playwright keeps an event loop running in the thread: tests of other modules need their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from browser.page_stage import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started
