"""`weft review` from the shell: rounds of comments with a scripted agent, and decisions."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cli.plan_project import Project, plan
from cli.terminal import Terminal
from databases import sqlite_store
from repositories import git

ANSWERS = r"done\n```weft-review\n1 handled: renamed\n2 answered: it is right\n3 handled: gone\n```"
ROUNDS = plan(
    r"Write one: one.txt: attempt 1: write one.txt first\nsecond\nthird\nfourth\nfifth; "
    r"attempt 2: write one.txt zero\nfirst\nSECOND\nthird\nfifth; "
    f"attempt 2: answer {ANSWERS}"
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project", sqlite_store(tmp_path / "weft.db"))


def show(project: Project, task: str = "1.1") -> Any:
    return project.answer("review", task, "--json")


def changed_lines(files: Any) -> list[str]:
    """The changed lines of the files of a diff, with their signs."""
    lines = [line for file in files for hunk in file["hunks"] for line in hunk["lines"]]
    signs = ["+" if "old" not in line else "-" if "new" not in line else "" for line in lines]
    return [f"{sign}{line['text']}" for sign, line in zip(signs, lines, strict=True) if sign]


def send_back(project: Project, comments: Mapping[str, str], task: str = "1.1") -> Any:
    """Write comments below the lines of the review that end so, and send them."""
    written = []
    for line in project.weft("review", task).stdout.splitlines():
        written.append(line)
        written += [
            text for end, text in comments.items() if line.startswith(">") and line.endswith(end)
        ]
    sheet = project.root.parent / "sheet"
    sheet.write_text("\n".join(written))
    return project.answer("review", task, "--send-back", str(sheet), "--json")


def test_comments_go_round_and_the_accepted_tree_lands(project: Project) -> None:
    project.write(ROUNDS)
    ran = project.weft("run", "plan.md", "--review")
    assert ran.returncode == 1
    run = project.run_id()
    assert f"weft review {run}/1.1" in ran.stdout
    assert "waits for your review: Write one" in project.weft("ps").stdout
    assert project.weft("why", "1.1").stdout.splitlines()[1].startswith("in review since")
    comments = {"+second": "rename it\nplease", "+third": "why this?", "+fourth": "remove it"}
    assert send_back(project, comments)["state"] == "sent_back"
    assert project.weft("run", "--resume").returncode == 1
    shown = show(project)
    assert (shown["item"]["round"], shown["attempts"], shown["summary"]) == (2, 2, "done")
    assert [
        (each["comment"]["text"], each["comment"]["answer"], each["comment"]["reason"])
        for each in shown["earlier"]
    ] == [
        ("rename it\nplease", "handled", "renamed"),
        ("why this?", "answered", "it is right"),
        ("remove it", "handled", "gone"),
    ]
    assert [(each["comment"]["line"], each["line"]) for each in shown["earlier"]] == [
        *((2, None), (3, 4), (4, None))  # rewritten, moved, removed
    ]
    assert changed_lines(shown["since_last_round"]) == ["+zero", "-second", "+SECOND", "-fourth"]
    assert changed_lines(shown["files"]) == ["+zero", "+first", "+SECOND", "+third", "+fifth"]
    [first, second] = project.rows("SELECT session, outcome FROM attempts ORDER BY number")
    assert first == second == {"session": first["session"], "outcome": "success"}
    assert project.answer("review", "1.1", "--accept", "--json")["state"] == "accepted"
    assert project.weft("run", "--resume").returncode == 0
    assert git(project.root, "rev-parse", f"weft/{run}^{{tree}}").strip() == shown["tree"]
    assert project.weft("verify").returncode == 0


def review_on_terminal(project: Project, **editor: str) -> Terminal:
    command = [sys.executable, "-m", "weft", "review", "1.1"]
    environment = {**project.environment, "VISUAL": "", "EDITOR": "", "PAGER": "cat", **editor}
    return Terminal(command, directory=project.root, environment=environment)


def test_a_person_comments_in_an_editor_and_decides_on_a_terminal(project: Project) -> None:
    editor = project.root.parent / "editor.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/^>.*+second$/&\\nrename it/' \"$1\"\n")
    editor.chmod(0o755)
    project.write(ROUNDS)
    assert project.weft("run", "plan.md", "--review").returncode == 1
    with review_on_terminal(project, EDITOR=str(editor)) as screen:
        screen.wait_for("1 comment kept", "[a]ccept, [s]end back or [l]ater? [s]:")
        screen.type(b"l\n")
        assert screen.wait_end() == 0
    assert "stays in review" in screen.text()
    with review_on_terminal(project) as screen:  # the pager shows the kept comment
        screen.wait_for("rename it", "[l]ater? [s]:")
        screen.type(b"\n")
        assert screen.wait_end() == 0
    assert "sent back" in screen.text()
    assert [row["quoted"] for row in project.rows("SELECT quoted FROM review_comments")] == [
        "second"
    ]
    assert project.weft("run", "--resume").returncode == 1
    with review_on_terminal(project) as screen:
        screen.wait_for("[l]ater? [l]:")
        screen.type(b"a\n")
        assert screen.wait_end() == 0
    assert project.weft("run", "--resume").returncode == 0
    assert project.states() == {"1.1": "done"}


def test_an_editor_that_fails_decides_nothing(project: Project) -> None:
    project.write(ROUNDS)
    assert project.weft("run", "plan.md", "--review").returncode == 1
    with review_on_terminal(project, EDITOR="false") as screen:
        assert screen.wait_end() == 2
    assert "ended with 1; nothing was decided" in " ".join(screen.text().split())
    assert show(project)["item"]["round"] == 1


def test_text_of_an_agent_cannot_steer_the_terminal_or_the_sheet(project: Project) -> None:
    """Lines that look like weft's, escapes and marks that reverse text are shown harmless, and a
    comment below such a line quotes the line as it is."""
    program = project.root.parent / "agent.sh"
    program.write_text(
        "#!/bin/sh\nprintf '\\033[2Jgone\\n# candidate 9.9\\n> fake.txt (edited)\\n' > one.txt\n"
        "printf '\\033]0;title\\007done\\n'\n"
    )
    program.chmod(0o755)
    project.agent("implement", runs=str(program))
    project.write(plan("Write one: one.txt: none"))
    assert project.weft("run", "plan.md", "--review").returncode == 1
    text = project.weft("review", "1.1").stdout
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    comments = {"[2Jgone": "What is this?\n\x1b[31mred", "+# candidate 9.9": "And this?"}
    send_back(project, comments)
    rows = project.rows("SELECT line, quoted, text FROM review_comments ORDER BY id")
    assert rows == [
        {"line": 1, "quoted": "\x1b[2Jgone", "text": "What is this?\n\x1b[31mred"},
        {"line": 2, "quoted": "# candidate 9.9", "text": "And this?"},
    ]
    assert project.weft("run", "--resume").returncode == 1
    done = project.weft("review", "1.1")
    assert done.returncode == 0, done.stderr
    again = done.stdout
    assert "  | \ufffd[31mred" in again
    assert all(letter.isprintable() or letter == "\n" for letter in again)


def test_a_sheet_of_another_candidate_or_with_changed_lines_is_refused(project: Project) -> None:
    project.write(plan("Write one: one.txt: write one.txt 1"))
    assert project.weft("run", "plan.md", "--review").returncode == 1
    sheet = project.root.parent / "sheet"
    text = project.weft("review", "1.1").stdout
    for changed, words in (
        (text.replace("# candidate ", "# candidate 9"), "The text is about 'candidate 9"),
        (text.replace("+1", "+2"), "Begin comments with another character"),
        (text, "There is no comment to send"),
    ):
        sheet.write_text(changed)
        refused = project.weft("review", "1.1", "--send-back", str(sheet))
        assert refused.returncode == 2
        assert words in refused.stderr
    other = project.weft("review", "1.1", "--accept", "--candidate", "9.9")
    assert (other.returncode, "Candidate 9.9 is not in review" in other.stderr) == (1, True)
    assert project.answer("review", "--json")[0]["round"] == 1


def test_a_change_outside_the_claims_lands_and_is_told_everywhere(project: Project) -> None:
    project.write(plan("Write one: one.txt: write one.txt 1; write docs/index.md 2"))
    ran = project.weft("run", "plan.md", "--review")
    assert (
        "  also changed, outside the files of their tasks:\n    docs/index.md (1.1)" in ran.stdout
    )
    assert show(project)["outside"] == ["docs/index.md"]
    sheet = project.weft("review", "1.1").stdout
    assert "# also changed docs/index.md, outside the files of its task" in sheet
    told = "also changed docs/index.md: outside its files, which no other task held"
    assert told in project.weft("why", "1.1").stdout
    assert project.answer("why", "1.1", "--json")["outside"] == ["docs/index.md"]
    project.answer("review", "1.1", "--accept", "--json")
    done = project.answer("run", "--resume", "--json")
    assert list(done["outside"]) == ["docs/index.md"]
    assert git(project.root, "show", f"weft/{project.run_id()}:docs/index.md").strip() == "2"
