"""`weft publish` against a stand-in for `gh` beside a real bare repository."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from databases import change
from forge.conftest import TOKEN, Forge
from gate.gate_run import Stage, candidate, drive, run_git
from gate.land_stage import commit_on_main, finish_run, land, land_context
from weft import config
from weft.config import Config, PublishSettings
from weft.errors import InputError, Refused
from weft.forge.forge_command import ForgeAway
from weft.forge.forge_tools import GH, GLAB, Proposal, ToolCall, list_issues
from weft.forge.publication import Publication, PublishKind, publish_run
from weft.gate.repair import add_repair_task
from weft.project.project import Project
from weft.store.runs import end_finished, get_run

NEW = Proposal(title="t", body="b", base="main", head="weft/r1")


def publish(project: Project, stage: Stage, *, pauses: tuple[float, ...] = ()) -> Publication:
    run = get_run(stage.store, "r1")
    return publish_run(project, stage.store, run, "main", pauses=pauses)


def land_again(stage: Stage) -> None:
    """Let the run land a second commit, as a repair does."""
    commit_on_main(stage.root, {"src/a": "a = 3\n"})
    outcome = land(stage.root, stage.store)
    with land_context(stage.root, stage.store) as context:
        task = add_repair_task(context, get_run(stage.store, "r1"), outcome)
    stage.numbers[task.name] = task.id
    merge = task.request.merge
    assert merge is not None
    made = candidate(stage.root, merge.commit, {"src/a": "a = 5\n"}, "Merge both")
    stage.offer(task.name, made, base=merge.commit)
    drive(stage, lambda: stage.are(**{task.name: "done"}))
    end_finished(stage.store, now=time.time())


def test_a_pull_request_is_opened_with_tasks_checks_cost_and_proof(
    stage: Stage, forge: Forge, project: Project
) -> None:
    ended = finish_run(stage, {"src/a": "a = 2\n"})
    done = publish(project, stage)
    assert (done.kind, done.number) == (PublishKind.OPENED, 1)
    assert done.url == "https://forge.example/o/r/pull/1"
    assert forge.tip("weft/r1") == ended.trunk
    [request] = forge.read()["requests"]
    assert (request["headRefName"], request["baseRefName"]) == ("weft/r1", "main")
    assert f"- [x] a a ({ended.trunk[:12]})" in request["body"]
    assert "! grep -rn broken src" in request["body"]
    assert "$0.00" in request["body"]
    assert "✓ `weft verify`: run r1: 1 task in 1 landing," in request["body"]
    assert TOKEN not in request["body"]
    assert {call["token"] for call in forge.read()["calls"]} == {TOKEN}, "the tool's own, untouched"


def test_a_second_landing_updates_the_same_pull_request(
    stage: Stage, forge: Forge, project: Project
) -> None:
    ended = finish_run(stage, {"src/a": "a = 2\n"})
    publish(project, stage)
    land_again(ended)
    done = publish(project, stage)
    assert (done.kind, done.number) == (PublishKind.UPDATED, 1)
    assert forge.tip("weft/r1") == ended.trunk
    [request] = forge.read()["requests"]
    assert "repair-1" in request["body"]


def test_a_pull_request_that_a_person_closed_stays_closed(
    stage: Stage, forge: Forge, project: Project
) -> None:
    ended = finish_run(stage, {"src/a": "a = 2\n"})
    publish(project, stage)
    [request] = forge.read()["requests"]
    forge.change(requests=[{**request, "state": "CLOSED"}])
    pushed = forge.tip("weft/r1")
    land_again(ended)
    with pytest.raises(Refused, match="`gh pr reopen 1` opens it again"):
        publish(project, stage)
    assert forge.tip("weft/r1") == pushed
    forge.change(requests=[{**request, "state": "OPEN"}])
    assert publish(project, stage).kind is PublishKind.UPDATED


def test_a_merged_pull_request_is_left_alone_until_more_has_landed(
    stage: Stage, forge: Forge, project: Project
) -> None:
    ended = finish_run(stage, {"src/a": "a = 2\n"})
    publish(project, stage)
    [request] = forge.read()["requests"]
    forge.change(requests=[{**request, "state": "MERGED"}])
    assert publish(project, stage).kind is PublishKind.MERGED
    land_again(ended)
    done = publish(project, stage)
    assert (done.kind, done.number) == (PublishKind.OPENED, 2)


def test_a_refusal_of_the_forge_is_told_and_not_repeated(
    stage: Stage, forge: Forge, project: Project
) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    run_git(forge.home / "remote.git", "branch", "-m", "main", "trunk")
    with pytest.raises(Refused, match=r"gh pr create failed: .*Base sha can't be blank"):
        publish(project, stage, pauses=(0, 0))
    verbs = [call["argv"][1] for call in forge.read()["calls"]]
    assert verbs == ["list", "create"]


def test_a_branch_with_commits_of_other_people_is_not_overwritten(
    stage: Stage, forge: Forge, project: Project
) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    theirs = candidate(stage.root, "main", {"x": "x\n"}, "Theirs")
    run_git(stage.root, "push", "-q", "origin", f"{theirs}:refs/heads/weft/r1")
    with pytest.raises(Refused, match=r"weft/r1 was not pushed: .*rejected"):
        publish(project, stage)
    assert forge.tip("weft/r1") == theirs


@pytest.mark.parametrize(
    "fault",
    [
        "HTTP 403: API rate limit exceeded for user ID 1",
        "error connecting to api.github.com\ncheck your internet connection",
        "HTTP 502: Bad Gateway (https://api.github.com/graphql)",
    ],
)
def test_a_forge_that_is_away_for_a_while_is_waited_for(
    stage: Stage, forge: Forge, project: Project, fault: str
) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    forge.change(faults=[fault, "", fault, ""])
    assert publish(project, stage, pauses=(0, 0)).kind is PublishKind.OPENED
    assert len(forge.read()["requests"]) == 1


def test_a_forge_that_stays_away_ends_the_command_and_the_next_one_goes_on(
    stage: Stage, forge: Forge, project: Project
) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    forge.change(faults=["", *["dial tcp: lookup api.github.com: no such host"] * 3])
    with pytest.raises(ForgeAway, match="no such host"):
        publish(project, stage, pauses=(0, 0))
    assert forge.read()["requests"] == []
    assert publish(project, stage).kind is PublishKind.OPENED


def test_a_remote_that_cannot_be_reached_is_told(
    stage: Stage, forge: Forge, project: Project
) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    shutil.move(forge.home / "remote.git", forge.home / "away.git")
    with pytest.raises(Refused, match=r"weft/r1 was not pushed: .*does not appear to be a git rep"):
        publish(project, stage)
    shutil.move(forge.home / "away.git", forge.home / "remote.git")
    assert publish(project, stage).kind is PublishKind.OPENED


def test_a_command_of_the_user_gets_four_arguments_and_no_shell(
    stage: Stage, forge: Forge, project: Project
) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    program = forge.home / "mine"
    program.write_text('#!/bin/sh\nprintf "%s|" "$#" "$1" "$2" "$4" "$5"\n')
    program.chmod(0o755)
    settings = Config(publish=PublishSettings(command=(str(program), "$(touch x); `id`")))
    done = publish(replace(project, config=settings), stage)
    assert done.kind is PublishKind.HANDED_OVER
    assert done.output == "5|$(touch x); `id`|a|main|weft/r1|"
    assert forge.tip("weft/r1")
    assert forge.read()["calls"] == []


def test_hooks_that_an_agent_may_have_written_do_not_run_in_a_push(
    stage: Stage, forge: Forge, project: Project
) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    hook = stage.root / ".git/hooks/pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nenv > {forge.home}/stolen\n")
    hook.chmod(0o755)
    publish(project, stage)
    assert not (forge.home / "stolen").exists()


def test_a_hostile_title_is_no_option_of_the_command_and_a_long_text_is_cut(
    stage: Stage, forge: Forge, project: Project
) -> None:
    """A text of many bytes per character, which Linux would not take as an argument."""
    finish_run(stage, {"src/a": "a = 2\n"})
    change(stage.store.url, "UPDATE tasks SET text = '--repo=evil/x $(touch x)'")
    long = "\n".join(["echo " + "€" * 100] * 600)
    request = f"json_set(request, '$.check', '{long}')"
    change(stage.store.url, f"UPDATE tasks SET request = {request}")
    program = forge.home / "my-forge"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$2" > {forge.home}/title\n')
    program.chmod(0o755)
    settings = Config(publish=PublishSettings(command=(str(program), "open")))
    done = publish(replace(project, config=settings), stage)
    assert done.kind is PublishKind.HANDED_OVER
    assert (forge.home / "title").read_text() == "Run r1: --repo=evil/x $(touch x)\n"


def test_a_command_for_the_shell_is_refused() -> None:
    with pytest.raises(InputError, match="must be a list of words"):
        config.parse('[publish]\ncommand = "my-forge open"\n', {})


def test_a_repository_without_a_remote_or_a_tool_says_so(
    stage: Stage, forge: Forge, project: Project
) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    bare = {**project.environment, "PATH": str(forge.home)}
    with pytest.raises(InputError, match="gh is not on the PATH"):
        publish(replace(project, environment=bare), stage)
    run_git(stage.root, "remote", "set-url", "origin", "https://gitlab.example/o/r.git")
    with pytest.raises(InputError, match="glab is not on the PATH"):
        publish(replace(project, environment=bare), stage)
    run_git(stage.root, "remote", "remove", "origin")
    with pytest.raises(InputError, match="git remote add"):
        publish(project, stage)


CALLS = [
    GH.list_requests("h", "b"),
    GH.create(NEW),
    GH.update(1, NEW),
    list_issues(["bug"], "v1"),
]


@pytest.mark.parametrize("called", CALLS, ids=lambda called: " ".join(called.argv[:3]))
def test_every_flag_and_field_is_one_of_the_real_program(called: ToolCall, tmp_path: Path) -> None:
    """Asked of the installed `gh` itself, which needs no network for its help."""
    if shutil.which("gh") is None:
        pytest.skip("gh is not installed")
    help = _ask(tmp_path, *called.argv[:3], "--help")
    for word in called.argv[3:]:
        if word.startswith("--"):
            assert f"{word} " in help, word
    if "--json" in called.argv:
        wanted = called.argv[called.argv.index("--json") + 1].split(",")
        known = _ask(tmp_path, *called.argv[:3], "--json").split()
        assert set(wanted) <= set(known)


def _ask(home: Path, *arguments: str) -> str:
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
    done = subprocess.run(
        arguments, env=environment, cwd=home, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_glab_is_called_without_prompts_and_read_in_its_own_words() -> None:
    assert GLAB.create(NEW).argv[-1] == "--yes"
    answer = '[{"iid": 7, "web_url": "u", "state": "opened", "sha": "c"}]'
    [request] = GLAB.read_requests(answer)
    assert (request.number, request.state, request.head) == (7, "open", "c")
