"""The page over HTTP: a shell without data, one-use codes, views bound by scopes and tenants."""

from __future__ import annotations

import json
import time
from pathlib import Path

import httpx
import pytest

from api_http.server_process import Server
from cli.shell import assert_one_sentence, make_project, weft
from weft.store.tokens import create_page_code

VIEWS = ("needs", "now", "count")


def make_code(server: Server, *scopes: str, seconds: float = 60.0) -> str:
    with server.open_store() as store:
        return create_page_code(store, scopes=scopes, seconds=seconds, now=time.time())


def exchange(server: Server, code: str) -> httpx.Response:
    return httpx.post(f"{server.url}/exchange", headers={"X-Weft-Code": code})


@pytest.mark.parametrize("path", ["/", "/assets/page.js", "/assets/page.css", "/assets/icon.svg"])
def test_the_shell_needs_no_token_and_allows_no_foreign_script_or_frame(
    server: Server, path: str
) -> None:
    answer = httpx.get(f"{server.url}{path}")
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    again = httpx.get(f"{server.url}{path}", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


def test_the_shell_names_all_its_files_relative_to_itself(server: Server) -> None:
    shell = httpx.get(server.url).text
    assert 'src="assets/page.js"' in shell
    assert 'src="/' not in shell
    assert 'href="/' not in shell


def test_the_script_has_at_most_25_kilobytes_and_the_first_load_60(server: Server) -> None:
    script = httpx.get(f"{server.url}/assets/page.js", headers={"Accept-Encoding": "identity"})
    assert len(script.content) <= 25_000
    sent = 0
    for path in ("/", "/assets/page.js", "/assets/page.css", "/assets/icon.svg"):
        with httpx.stream("GET", f"{server.url}{path}") as answer:
            sent += len(b"".join(answer.iter_raw()))
    assert sent < 30_000


def test_a_link_on_another_site_leads_to_the_shell_alone(server: Server) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert httpx.get(server.url, headers=foreign).status_code == 200
    assert httpx.post(f"{server.url}/exchange", headers=foreign).status_code == 403
    assert httpx.get(f"{server.url}/assets/page.js", headers=foreign).status_code == 403
    wrong = {"Host": "attacker.example"}
    assert httpx.get(server.url, headers=wrong).status_code == 403


def test_a_code_becomes_a_token_once(server: Server) -> None:
    code = make_code(server, "read")
    answer = exchange(server, code)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert server.client(answer.json()["token"]).http.get("/page/now").status_code == 200
    assert exchange(server, code).status_code == 401


def test_an_old_or_unknown_code_becomes_nothing(server: Server) -> None:
    old = make_code(server, "admin", seconds=-1.0)
    for code in (old, "x", "", "x" * 5000):
        assert exchange(server, code).status_code == 401


def test_views_need_a_token(server: Server) -> None:
    for view in (*VIEWS, "task/1"):
        assert httpx.get(f"{server.url}/page/{view}").status_code == 401


def test_only_a_task_with_a_team_has_a_candidate_to_choose(server: Server) -> None:
    admin = server.client()
    task = admin.send("Some work")
    body = {"task": task, "entrant": 1}
    answer = admin.http.post("/v1/choose", json=body)
    assert answer.status_code == 409
    assert "has no team" in answer.text


def test_a_token_that_only_reads_sees_no_forms(server: Server) -> None:
    reader = server.client(server.make_token("read"))
    task = server.client().send("Some work")
    for view in (*VIEWS[:2], f"task/{task}", f"task/{task}/messages"):
        answer = reader.http.get(f"/page/{view}")
        assert answer.status_code == 200, answer.text
        assert "data-act" not in answer.text


def test_hostile_text_is_shown_as_text(server: Server) -> None:
    own = server.apart()
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>\x1b[31m\u202e&amp;'\""
    task = own.send(hostile)
    for view in ("now", f"task/{task}", f"task/{task}/prompt", f"task/{task}/events"):
        shown = own.http.get(f"/page/{view}").text
        assert "<img" not in shown
        assert "<script" not in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert "&lt;img" in own.http.get("/page/now").text


def test_weft_open_prints_a_link_that_works_once(server: Server) -> None:
    store = {"WEFT_STORE": server.store_url, "XDG_STATE_HOME": str(server.root.parent / "state")}
    done = weft(server.root, "open", "--read", "--json", **store)
    assert done.returncode == 0, done.stderr
    link = json.loads(done.stdout)
    base, _, code = link["url"].partition("/#code=")
    assert (base, link["seconds"]) == (server.url, 600)
    token = exchange(server, code).json()["token"]
    reader = server.client(token)
    assert reader.refused(403, "POST", "/v1/drain", {}) == "forbidden"
    told = weft(server.root, "--server", server.url, "open", **store)
    assert told.stdout.startswith(f"{server.url}/#code=")


def test_weft_open_without_a_server_says_how_to_start_one(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    assert_one_sentence(weft(project, "open"), 2, "weft serve --open")


def test_a_page_without_a_valid_token_tells_of_weft_open(server: Server) -> None:
    """A person in a browser needs a link, not a token."""
    for headers in ({}, {"Authorization": "Bearer nonsense"}):
        page = httpx.get(f"{server.url}/page/views/now", headers=headers)
        assert page.status_code == 401
        assert "`weft open`" in page.json()["detail"]
        assert "`weft token create`" in httpx.get(f"{server.url}/v1/tasks", headers=headers).text
