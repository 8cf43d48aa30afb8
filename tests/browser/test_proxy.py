"""The page behind a proxy, below a path of another server."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Browser, expect

from browser.page_stage import page_stage

PREFIX = "/tools/weft"


@contextmanager
def proxy(port: int) -> Iterator[str]:
    """Pass requests below the prefix on, without it; yield the address of the page there."""

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._pass_on()

        def do_POST(self) -> None:
            self._pass_on()

        def _pass_on(self) -> None:
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            path = self.path.removeprefix(PREFIX)
            with closing(http.client.HTTPConnection("127.0.0.1", port)) as upstream:
                upstream.request(self.command, path, body, dict(self.headers.items()))
                with upstream.getresponse() as answer, suppress(OSError, http.client.HTTPException):
                    self._answer(answer)  # until the browser or the server has gone
            self.close_connection = True

        def _answer(self, answer: http.client.HTTPResponse) -> None:
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while data := answer.read1():
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{PREFIX}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_page_works_below_a_path_of_a_proxy(browser: Browser, tmp_path: Path) -> None:
    with (
        page_stage(browser, tmp_path, "--no-work") as stage,
        proxy(stage.server.port) as address,
    ):
        task = stage.ask("Behind the proxy")
        code = stage.link().partition("#")[2]
        page = stage.new_page()
        page.goto(f"{address}#{code}")
        expect(page.locator("#stream")).to_have_text("live")
        assert page.url == f"{address}#/"
        row = page.locator("[data-row]")
        expect(row).to_contain_text("Behind the proxy")
        row.get_by_role("button", name="Skip").click()
        expect(row).to_have_count(0)
        tab = stage.new_page()
        tab.goto(f"{address}#/task/{task}")
        expect(tab.locator("h1")).to_contain_text("skipped")
        stage.context.close()
