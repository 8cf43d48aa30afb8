"""`weft token`, on both stores."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cli.shell import answer, assert_one_sentence, make_project, weft
from databases import change
from store_helpers import url
from weft.errors import Unauthenticated
from weft.store import Store
from weft.store.tokens import identify

__all__ = ["url"]


def test_tokens_are_made_listed_and_revoked(tmp_path: Path, store: Store, url: str) -> None:
    project = make_project(tmp_path / "project")
    text = weft(project, "token", "create", "ann", WEFT_STORE=url).stdout.strip()
    assert identify(store, text, now=time.time()).scopes == {"read", "work"}
    made = answer(
        project,
        "token", "create", "bob", "--scope", "read", "--tenant", "t", "--expires", "30d", "--json",
        WEFT_STORE=url,
    )  # fmt: skip
    assert identify(store, made["secret"], now=time.time()).tenant == "t"
    assert made["expires"] - made["created"] == 30 * 86_400
    listed = answer(project, "token", "list", "--json", WEFT_STORE=url)["tokens"]
    assert [one["name"] for one in listed] == ["ann", "bob"]
    assert "secret" not in listed[0]
    assert answer(project, "token", "revoke", made["id"], "--json", WEFT_STORE=url)["revoked"]
    with pytest.raises(Unauthenticated):
        identify(store, made["secret"], now=time.time())
    said = weft(project, "token", "revoke", "ann", WEFT_STORE=url).stdout
    assert said.endswith("(ann) is revoked.\n")
    shown = weft(project, "token", "list", WEFT_STORE=url).stdout
    assert "revoked" in shown
    assert text not in shown
    wrong = weft(project, "token", "create", "c", "--expires", "never", WEFT_STORE=url)
    assert_one_sentence(wrong, 2, "30d")


def test_a_token_names_the_agents_it_sends_work_to(tmp_path: Path, store: Store, url: str) -> None:
    project = make_project(tmp_path / "project")

    def make(*arguments: str) -> str:
        made = answer(project, "token", "create", *arguments, "--json", WEFT_STORE=url)
        assert isinstance(made["id"], str)
        return made["id"]

    make("usual")
    make("named", "--agents", "implement,review", "--agents", "try")
    make("all", "--agents", "*")
    make("reader", "--scope", "read")
    make("boss", "--scope", "admin")
    change(url, "UPDATE tokens SET agents = NULL WHERE id = ?", make("older"))
    listed = answer(project, "token", "list", "--json", WEFT_STORE=url)["tokens"]
    assert {one["name"]: one["agents"] for one in listed} == {
        "usual": [],
        "named": ["implement", "review", "try"],
        "all": ["*"],
        "reader": [],
        "boss": ["*"],
        "older": None,
    }
    shown = weft(project, "token", "list", WEFT_STORE=url).stdout
    rows = {line.split()[1]: line for line in shown.splitlines()[1:]}
    assert "open ones" in rows["usual"]
    assert "implement review try" in rows["named"]
    assert "all (older token)" in rows["older"]
    assert "made before" not in rows["boss"] + rows["all"]
    for wrong, said in (
        (["--agents", "no/name"], "no/name"),
        (["--scope", "read", "--agents", "try"], "work"),
        (["--scope", "admin", "--agents", "try"], "admin"),
    ):
        done = weft(project, "token", "create", "c", *wrong, WEFT_STORE=url)
        assert_one_sentence(done, 2, said)


def test_a_token_for_an_agent_that_does_not_exist_is_warned_about(
    tmp_path: Path, store: Store, url: str
) -> None:
    project = make_project(tmp_path / "project")
    agent = project / ".weft" / "agents" / "here.md"
    agent.parent.mkdir(parents=True, exist_ok=True)
    agent.write_text("---\nruns: scripted\n---\n{{ task.text }}\n")
    made = weft(project, "token", "create", "ci", "--agents", "here,tyr,*", WEFT_STORE=url)
    assert made.returncode == 0
    assert made.stderr == "weft: there is no agent tyr yet; `weft agents` lists them\n"
