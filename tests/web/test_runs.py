"""Runs over HTTP: a plan as text, looked at, paused, cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.shell import TRY
from repositories import commit_all
from web.server import Server, serving

PLAN = "# P\n\n## Phase 1: All\n\n- [ ] Task 1.1: First\n  <!-- files: a.txt -->\n"


@pytest.fixture
def planned(tmp_path: Path) -> Iterator[Server]:
    url = f"sqlite:///{tmp_path / 'weft.db'}"
    with serving(tmp_path, url, agents={"implement": TRY}) as server:
        commit_all(server.root, "agents")
        yield server


def test_a_plan_is_submitted_once_and_steered(planned: Server) -> None:
    admin = planned.client()
    sent = admin.post("/v1/runs", {"plan": PLAN}, Idempotency_Key="k")
    assert admin.post("/v1/runs", {"plan": PLAN}, Idempotency_Key="k") == sent
    run = sent["submitted"]["run"]
    assert [one["id"] for one in admin.get("/v1/runs")["runs"]] == [run]
    assert admin.get(f"/v1/runs/{run}")["tasks"] == {"ready": 1}
    assert admin.post(f"/v1/runs/{run}/pause")["changed"]
    assert admin.get(f"/v1/runs/{run}")["tasks"] == {"paused": 1}
    assert admin.post(f"/v1/runs/{run}/resume")["changed"]
    assert admin.post(f"/v1/runs/{run}/cancel")["state"] == "ended"
    assert admin.refused(422, "POST", "/v1/runs", {"plan": "nothing to do"}) == "input_error"
    assert admin.refused(422, "POST", "/v1/runs", {"plan": PLAN, "name": "../x"})
    worker = planned.tenant()
    assert worker.refused(403, "POST", "/v1/runs", {"plan": PLAN}) == "forbidden"
    assert worker.refused(403, "GET", f"/v1/runs/{run}") == "forbidden"
    assert worker.get("/v1/runs")["runs"] == []
