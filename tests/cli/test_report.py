"""`weft report` as it is called from a shell; the demo shows it on a real run."""

from __future__ import annotations

from pathlib import Path

from cli.shell import answer, assert_one_sentence, make_project, weft

PLAN = """# Words \x1b[2J
## Phase 1: All
- [ ] Task 1: Write
  <!-- files: a.txt -->
  - script: write a.txt a
"""


def test_without_a_run_it_says_so(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    assert_one_sentence(weft(project, "report"), 2, "no run yet", "weft run")
    assert_one_sentence(weft(project, "report", "that"), 2, "no run 'that'")


def test_a_run_is_reported_on_in_lines_as_json_and_as_a_page(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    (project / "plan.md").write_text(PLAN)
    ran = answer(project, "run", "plan.md", "--agent", "try", "--json")
    told = answer(project, "report", ran["run"], "--json", "--html", "out.html")
    assert (told["run"], told["figures"]["landed"]) == (ran["run"], 1)
    assert told["tasks"][0]["commit"] == ran["tasks"][0]["commit"]
    page = (project / "out.html").read_text()
    assert told["attempts"][0]["task"] in page
    lines = weft(project, "report")
    assert "1 of 1 tasks landed" in lines.stdout
    assert "\x1b" not in lines.stdout + page
    refused = weft(project, "report", "--html", "plan.md")
    assert_one_sentence(refused, 2, "plan.md", "no HTML page")
