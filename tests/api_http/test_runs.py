"""Runs over HTTP: a plan as text, looked at, paused, cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from api_http.server_process import Client, Server, serving
from cli.shell import TRY
from repositories import commit_all, git

PLAN = "# P\n\n## Phase 1: All\n\n- [ ] Task 1.1: First\n  <!-- files: a.txt -->\n"


@pytest.fixture
def planned(tmp_path: Path) -> Iterator[Server]:
    url = f"sqlite:///{tmp_path / 'weft.db'}"
    with serving(tmp_path, url, agents={"implement": TRY}) as server:
        commit_all(server.root, "agents")
        yield server


def pages(client: Client, path: str, what: str) -> list[list[str]]:
    """All pages of a list, each by what its items are known by."""
    found, after = [], ""
    while True:
        page = client.get(path, params={"most": 2, **({"after": after} if after else {})})
        found.append([str(one.get("id", one.get("run"))) for one in page[what]])
        after = page["after"]
        if after is None:
            return found


def test_every_list_comes_in_pages_of_the_size_asked_for(planned: Server) -> None:
    admin = planned.client()
    runs = [admin.post("/v1/runs", {"plan": PLAN})["submitted"]["run"] for _ in range(3)][::-1]
    agents = sorted(admin.join(name) for name in ("ann", "bob", "cat"))
    tokens = [admin.post("/v1/tokens", {"name": "x", "scopes": ["read"]})["id"] for _ in range(2)]
    assert pages(admin, "/v1/runs", "runs") == [runs[:2], runs[2:]]
    assert pages(admin, "/v1/cost", "runs") == [runs[:2], runs[2:]]
    assert pages(admin, "/v1/agents", "agents") == [agents[:2], agents[2:]]
    assert [one for page in pages(admin, "/v1/tokens", "tokens") for one in page][1:] == tokens
    for path in ("runs", "cost", "agents", "tokens", "tasks", "queue"):
        for odd in ("0", "201", "x"):
            assert admin.refused(422, "GET", f"/v1/{path}?most={odd}") == "malformed"
    for path in ("runs", "cost", "tokens"):
        assert admin.refused(404, "GET", f"/v1/{path}?after=nobody") == "not_found"


def test_a_plan_is_submitted_once_and_steered(planned: Server) -> None:
    admin = planned.client()
    sent = admin.post("/v1/runs", {"plan": PLAN}, Idempotency_Key="k")
    assert admin.post("/v1/runs", {"plan": PLAN}, Idempotency_Key="k") == sent
    run = sent["submitted"]["run"]
    assert [one["id"] for one in admin.get("/v1/runs")["runs"]] == [run]
    assert admin.get(f"/v1/runs/{run}")["tasks"] == {"ready": 1}
    assert admin.post("/v1/pause", {"name": run})["changed"]
    assert admin.get(f"/v1/runs/{run}")["tasks"] == {"paused": 1}
    assert admin.post("/v1/resume", {"name": run})["changed"]
    assert not admin.post("/v1/resume", {"name": run})["changed"]
    assert admin.post("/v1/cancel", {"name": run})["state"] == "ended"
    assert admin.refused(422, "POST", "/v1/runs", {"plan": "nothing to do"}) == "input_error"
    assert admin.refused(422, "POST", "/v1/runs", {"plan": PLAN, "name": "../x"})
    worker = planned.apart()
    assert worker.refused(403, "POST", "/v1/runs", {"plan": PLAN}) == "forbidden"


def test_a_run_is_bounded_as_its_sender_wishes(planned: Server) -> None:
    admin = planned.client()
    base = git(planned.root, "rev-parse", "HEAD~1").strip()
    wishes = {"stages": ["implement"], "slots": 2, "base": base, "budget_usd": 1.5}
    sent = admin.post("/v1/runs", {"plan": PLAN, **wishes})["submitted"]
    run = sent["run"]
    assert sent["base"] == base
    limits = {one["resource"]: one["capacity"] for one in admin.get("/v1/limits")["limits"]}
    assert limits[f"run:{run}/usd"] == 1_500_000
    assert limits[f"run:{run}/agents"] == limits[f"stage:{run}/implement"] == 2
    [number] = sent["tasks"].values()
    assert admin.get(f"/v1/tasks/{number}")["uses"][f"run:{run}/usd"] == 1_500_000
    assert admin.get(f"/v1/cost?run={run}")["runs"][0]["budget"]["cap"] == 1_500_000
    for odd in ({"slots": 0}, {"slots": 257}, {"budget_usd": 0}, {"budget_usd": 1e6}, {"base": ""}):
        assert admin.refused(422, "POST", "/v1/runs", {"plan": PLAN, **odd}) == "malformed"
    for wrong in ({"stages": ["nobody"]}, {"agent": "nobody"}, {"base": "--all"}):
        answer = admin.http.post("/v1/runs", json={"plan": PLAN, **wrong})
        assert (answer.status_code, answer.json()["type"]) == (422, "input_error")
        assert str(planned.root) not in answer.text


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("format", "plan"),
    [
        ("plan.md", PLAN),
        ("prd.json", '{"title": "P", "stories": [{"id": "1", "title": "A", "files": ["a"]}]}'),
        ("beads", '{"id": "a-1", "title": "First", "status": "open"}\n'),
    ],
)
def test_a_plan_is_taken_in_every_format(
    planned: Server, format: str, plan: str, named: bool
) -> None:
    body = {"plan": plan, **({"format": format} if named else {})}
    sent = planned.client().post("/v1/runs", body)
    assert len(sent["submitted"]["tasks"]) == 1


def test_nobody_joins_under_the_name_of_an_agent_file(planned: Server) -> None:
    client = planned.apart()
    for about in ({"name": "implement"}, {"name": "ann", "id": "implement"}):
        answer = client.http.post("/v1/agents", json=about)
        assert (answer.status_code, answer.json()["type"]) == (422, "input_error")
        assert answer.json()["detail"] == (
            "implement is the name of an agent file here; join under another."
        )
    assert client.join("implementer")
