"""Reviews over HTTP and MCP: hunks, drafts, a round, an answer by the agent's tool, acceptance."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from mcp_project import ServedProject, call
from wait_until import PATIENCE, wait_until
from weft.model import State
from weft.operations.dispatch import NewPlan, submit_text
from weft.operations.identity import LOCAL
from weft.store.reviews import list_open_reviews

pytestmark = pytest.mark.anyio

PLAN = f"""# Reviewed
<!-- review: you -->

## Phase 1: One

- [ ] Task 1: Write it
  <!-- files: reviewed.txt -->
  - script: write reviewed.txt one\\ntwo
  - script: attempt 2: replace reviewed.txt two => TWO
  - script: attempt 2: {call("answer_comment", comment=1, answer="handled", reason="shouted")}
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def wait_for_review(project: ServedProject, round: int) -> str:
    """Wait until a candidate of this round is in review; return its id."""
    wait_until(lambda: [one.round for one in list_open_reviews(project.store)] == [round])
    [review] = list_open_reviews(project.store)
    return review.entry


async def test_a_candidate_is_commented_sent_back_and_accepted(project: ServedProject) -> None:
    new = NewPlan(plan=PLAN, name="reviewed", agent="scripted")
    sent = submit_text(project.store, LOCAL, project.project(), new)
    [task] = sent.submitted.tasks.values()
    candidate = wait_for_review(project, 1)
    admin, reader = project.give_token("read", "work", "admin"), project.give_token("read", "work")
    base = f"http://127.0.0.1:{project.port}/v1"
    bearer = {"Authorization": f"Bearer {admin}"}
    async with httpx2.AsyncClient(base_url=base, headers=bearer, timeout=PATIENCE) as http:

        async def post(to: str, **body: Any) -> httpx2.Response:
            return await http.post(to, json=body)

        listed = (await http.get("reviews")).json()["reviews"]
        assert [(item["task"], item["candidate"]) for item in listed] == [(task, candidate)]
        shown = (await http.get(f"tasks/{task}/review")).json()
        [file] = shown["files"]
        assert [line["text"] for line in file["hunks"][0]["lines"]] == ["one", "two"]
        on: dict[str, Any] = {"candidate": candidate}
        wrong = await post("comment", **on, text="no such line", path="reviewed.txt", line=99)
        assert wrong.status_code == 422
        unwanted = (await post("comment", **on, text="unwanted")).json()["comment"]["id"]
        assert (await post("remove_comment", **on, comment=unwanted)).status_code == 200
        drafted = await post("comment", **on, text="Louder.", path="reviewed.txt", line=2)
        comment = drafted.json()["comment"]
        assert (comment["id"], comment["quoted"]) == (1, "two")
        assert (await post("send_round", **on)).json()["text"] == "Round 1 goes to the agent."
        newer = wait_for_review(project, 2)
        refused = await post("accept_candidate", **on)
        assert refused.status_code == 409
        assert f"now candidate {newer} is in review" in refused.json()["detail"]
    async with project.over_http(reader) as tools:
        assert "admin" in await tools.refused("accept_candidate", candidate=newer)
    async with project.over_http(admin) as tools:
        assert [item["round"] for item in (await tools("get_reviews"))["reviews"]] == [2]
        view = await tools("get_review", task=task)
        [earlier] = view["earlier"]
        answered = earlier["comment"]
        assert (answered["answer"], answered["reason"]) == ("handled", "shouted")
        assert earlier["line"] is None
        await tools("accept_candidate", candidate=newer)
    wait_until(lambda: project.state(task) is State.DONE)
    assert "Comment 1, on `reviewed.txt`:2" in project.prompt_of(task, 2)
