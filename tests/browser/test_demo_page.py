"""The demo's run in the browser, from its first task to its report."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from api_http.server_process import Server
from browser.page_stage import PageStage
from cli.shell import started
from weft.demo.shop import PLAN_RUN, make_shop


def test_the_run_of_the_demo_is_followed_to_its_end(browser: Browser, tmp_path: Path) -> None:
    shop = make_shop(tmp_path)
    url = f"sqlite:///{tmp_path / 'weft.db'}"
    server = Server(root=shop, store_url=url, arguments=("--slots", "6")).start()
    stage = PageStage(server, browser.new_context())
    try:
        page = stage.open("now")
        with started(shop, *PLAN_RUN, "--no-tty", WEFT_STORE=url) as process:
            expect(page.locator("#now-working tr[data-row]").first).to_be_visible()
            stage.go(page, "landing")
            expect(page.get_by_text("tested = landed").first).to_be_visible()
            process.communicate()
        stage.go(page, "needs")
        expect(page.locator("main")).to_contain_text("no run is under way")
        stage.go(page, "report")
        expect(page.locator("main")).to_contain_text("Landed commits")
        expect(page.locator("#stream")).to_have_text("live")
        assert stage.errors == []
    finally:
        stage.context.close()
        server.close()
