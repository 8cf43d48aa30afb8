"""Sentences of the seeds about plans, trackers and settings, each as a whole run."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from beads_issues import Issues
from end_to_end.run_project import RunProject, overlap
from repositories import git
from wait_until import PATIENCE, wait_until
from weft.store import open_store
from weft.store.attempt_reports import report_work
from weft.store.leases import list_open

pytestmark = pytest.mark.timeout(600)

TWO_PHASES = """# Track

## Phase 1: Setup
<!-- execution: parallel -->
- [ ] Task 1: Create auth
  <!-- files: src/auth.ts -->
  - script: wait {go}
  - script: write src/auth.ts x

## Phase 2: UI
<!-- execution: parallel; depends: -->
- [ ] Task 1: Create auth
  <!-- files: src/login.tsx -->
  - script: wait {go}
  - script: write src/login.tsx x

## Phase 3: Integration
- [ ] Task 1: Wire up
  <!-- files: src/all.ts -->
  - script: write src/all.ts x
"""


def finish(process: subprocess.Popen[str]) -> None:
    out, err = process.communicate(timeout=PATIENCE * 2)
    assert process.returncode == 0, out + err


def test_002_parallel_state_has_the_workers_of_all_phases_that_run(project: RunProject) -> None:
    """`phase1` and `phase2` "run in parallel (no dependencies between them)"."""
    go = project.root.parent / "go"
    project.plan.write_text(TWO_PHASES.format(go=go))
    file = project.root.parent / "parallel_state.json"

    def read() -> dict[str, Any]:
        state: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return state

    process = project.start("run", "plan.md", "--state", str(file))
    wait_until(lambda: len(read().get("file_locks", {})) == 2)
    state = read()
    assert state["phases"] == ["Phase 1: Setup", "Phase 2: UI"]
    assert state["file_locks"] == {
        "src/auth.ts": "worker_1_1_auth",
        "src/login.tsx": "worker_2_1_auth",
    }
    assert [(each["phase"], each["status"]) for each in state["workers"]] == [
        ("Phase 1: Setup", "in_progress"),
        ("Phase 2: UI", "in_progress"),
    ]
    go.touch()
    finish(process)
    assert read()["phase"] == "Phase 3: Integration"


def test_003_stories_of_a_later_parallel_group_wait_for_the_groups_before(
    project: RunProject,
) -> None:
    """`parallelGroup?: number`: "stories in same group can run simultaneously"."""
    go = project.root.parent / "go"
    stories = [
        {
            "id": name,
            "title": name,
            "files": [f"src/{name}"],
            "parallelGroup": group,
            "description": f"script: {wait}\nscript: write src/{name} x",
        }
        for name, group, wait in (
            ("C", 2, "say late"),
            ("A", 1, f"wait {go}"),
            ("B", 1, f"wait {go}"),
        )
    ]
    project.write(**{"prd.json": json.dumps({"title": "Waves", "stories": stories})})
    process = project.start("run", "prd.json", "--slots", "3")
    wait_until(lambda: list(project.states().values()).count("running") == 2)
    assert project.states()["C"] == "waiting"
    go.touch()
    finish(process)
    a, b, c = project.spans("A", "B", "C")
    assert overlap([a, b])
    assert c[0] >= max(a[1], b[1])


def test_003_the_branch_of_a_story_is_called_by_its_id(project: RunProject) -> None:
    """Workers "commit to feature branches (`agent-loop/{loopId}/{storyId}`…)"."""
    go = project.root.parent / "go"
    story = {
        "id": "LOOP-3",
        "title": "A",
        "files": ["src/a"],
        "description": f"script: wait {go}\nscript: write src/a x",
    }
    project.write(**{"prd.json": json.dumps({"title": "One", "stories": [story]})})
    process = project.start("run", "prd.json")
    wait_until(lambda: any(ref.endswith("/loop-3%+f/1") for ref in list_refs(project.root)))
    go.touch()
    finish(process)


OWN = "feat(auth): add a provider\\n\\nIt signs in.\\n\\nSigned-off-by: A <a@b>"


@pytest.mark.parametrize(
    ("commits", "style", "subject"),
    [
        ([OWN], "plain", "feat(auth): add a provider"),
        (["did it"], "plain", "Create OAuth provider"),
        ([OWN, "fix(auth): mend it"], "conventional", "feat(oauth): create OAuth provider"),
        ([], "conventional", "feat(oauth): create OAuth provider"),
    ],
)
def test_002_commit_with_message_feat_scope_description(
    project: RunProject, commits: list[str], style: str, subject: str
) -> None:
    """Commit with message: "feat(${scope}): ${description}"; no agent signs off for a person."""
    steps = [
        f"echo {n} >> src/oauth.ts && git add -A && "
        f"git -c user.name=A -c user.email=a@b commit -qm \"$(printf '{text}')\""
        for n, text in enumerate(commits)
    ]
    project.shell("implement", " && ".join([*steps, "echo end >> src/oauth.ts"]))
    project.settings(rest=f'[commit]\nstyle = "{style}"\n')
    project.commit()
    project.plan.write_text("- [ ] Create OAuth provider\n  <!-- files: src/oauth.ts -->\n")
    project.run("plan.md")
    message = git(project.root, "log", "-1", "--format=%B", f"weft/{project.run_id()}")
    assert message.splitlines()[0] == subject
    assert "Signed-off-by" not in message
    assert "Assisted-by: implement\n" in message


def test_004_the_longest_wait_for_capacity_is_a_setting_and_a_variable(
    project: RunProject,
) -> None:
    """`PI_AGENT_CAPACITY_WAIT_MS`: a task that found no capacity in time is given up."""
    assert project.weft("limits", "set", "requests", "0").returncode == 0
    settings = {"WEFT_TUNING_CAPACITY_WAIT": "0.2", "WEFT_TUNING_CAPACITY_POLL": "0.1"}
    done = project.weft("do", "script: say x", "--files", "src/a", **settings)
    assert done.returncode == 1, done.stderr
    [row] = project.rows("SELECT state, reason FROM tasks")
    assert row["state"] == "evicted"
    assert "capacity_wait" in row["reason"]


def test_002_each_worker_claims_and_notes_its_bead_and_the_epic_has_the_commits(
    project: RunProject,
) -> None:
    """`--assignee worker_<N>_<name>`, notes at start and end, and on the epic
    "PARALLEL PHASE COMPLETE … COMMITS: <sha_list>"."""
    issues = Issues(project.root.parent / "bd")
    go = project.root.parent / "go"
    work = {"description": f"script: wait {go}\nscript: write src/a x"}
    export = issues.add("bd-0", issue_type="epic") + issues.add(
        "bd-1", "bd-0", kind="parent-child", metadata={"files": ["src/a"]}, **work
    )
    project.write(**{"issues.jsonl": export})
    path = f"{issues.place}{os.pathsep}{os.environ['PATH']}"
    process = project.start("run", "issues.jsonl", PATH=path)
    wait_until(lambda: issues.now("bd-1")["status"] == "in_progress")
    [row] = project.rows("SELECT worker FROM attempts")
    begun = issues.now("bd-1")
    assert begun["assignee"] == f"weft/{row['worker']}"
    assert begun["notes"].startswith(f"weft: worker {row['worker']} started ")
    assert begun["notes"].endswith("; files: src/a")
    go.touch()
    finish(process)
    commit = git(project.root, "rev-parse", f"weft/{project.run_id()}").strip()[:12]
    ended = issues.now("bd-1")["notes"]
    assert ", took " in ended
    assert ended.endswith(f"; files: src/a; commit {commit}")
    assert issues.now("bd-0")["notes"] == f"weft: complete: 1 task; commits: {commit}"


def report_twice(project: RunProject, go: Path) -> None:
    """Report a piece of work as the agent that waits, as its tool `report_work` does; let it go."""
    wait_until(lambda: list(project.states().values()) == ["running"])
    with open_store(project.url) as store:
        [lease] = [each for each in list_open(store) if each.kind == "attempt"]
        for _ in range(2):
            report_work(store, lease.fence, "Found race condition", "Two writers.", now=time.time())
    go.touch()


def test_002_bd_create_found_race_condition_with_deps_discovered_from(project: RunProject) -> None:
    """`bd create "Found race condition" … --deps discovered-from:<beads_task_id>`; a second
    report of the same work makes no second issue."""
    issues = Issues(project.root.parent / "bd")
    go = project.root.parent / "go"
    work = {"description": f"script: wait {go}\nscript: write src/a x"}
    project.write(**{"issues.jsonl": issues.add("bd-1", metadata={"files": ["src/a"]}, **work)})
    path = f"{issues.place}{os.pathsep}{os.environ['PATH']}"
    process = project.start("run", "issues.jsonl", PATH=path)
    report_twice(project, go)
    finish(process)
    [new] = [issue for id, issue in issues.all().items() if id != "bd-1"]
    assert (new["title"], new["description"]) == ("Found race condition", "Two writers.")
    [link] = new["dependencies"]
    assert (link["depends_on_id"], link["type"]) == ("bd-1", "discovered-from")
    assert issues.now("bd-1")["status"] == "closed"


def test_002_discovered_issues_are_proposed_to_the_person_without_beads(
    project: RunProject,
) -> None:
    """`# During execution - discovered issues`"""
    go = project.root.parent / "go"
    project.plan.write_text(
        f"- [ ] a\n  <!-- files: src/a -->\n  - script: wait {go}\n  - script: write src/a x\n"
    )
    process = project.start("run", "plan.md")
    report_twice(project, go)
    out, err = process.communicate(timeout=PATIENCE * 2)
    assert process.returncode == 0, out + err
    assert "proposes a task: Found race condition" in out


def test_002_a_plan_beside_bd_is_mirrored_where_tasks_carry_the_ids_of_beads(
    project: RunProject,
) -> None:
    """ "Each worker gets its beads_task_id": a plan.md names it with `id:`; other tasks and ids
    of the author's own have no bead, and none is asked for."""
    issues = Issues(project.root.parent / "bd")
    issues.add("bd-1")
    issues.add("bd-2")
    (project.root / ".beads").mkdir()
    project.plan.write_text(
        "## Phase 1: P\n<!-- execution: parallel -->\n"
        "- [ ] Task 1: a\n  <!-- id: bd-1; files: src/a -->\n  - script: write src/a x\n"
        "- [ ] Task 2: b\n  <!-- files: src/b -->\n  - script: write src/b x\n"
        "- [ ] Task 3: c\n  <!-- id: my-own; files: src/c -->\n  - script: write src/c x\n"
    )
    path = f"{issues.place}{os.pathsep}{os.environ['PATH']}"
    finish(project.start("run", "plan.md", PATH=path))
    assert issues.now("bd-1")["status"] == "closed"
    assert issues.now("bd-2")["status"] == "open"
    assert {call[1] for call in issues.told()} == {"bd-1"}
    assert project.plan.read_text().count("- [x]") == 3


def list_refs(root: Path) -> list[str]:
    done = subprocess.run(
        ["git", "for-each-ref", "--format=%(refname)", "refs/weft/work"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()
