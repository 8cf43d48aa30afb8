"""`weft clean` as it is read by people and programs; what goes and stays is tested beneath it."""

from __future__ import annotations

from pathlib import Path

from cli.shell import answer, assert_one_sentence, make_project, weft


def test_clean_says_what_it_freed_and_what_it_kept_and_why(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    told = answer(project, "do", "x\nscript: write x x", "--agent", "try", "--json")
    foretold = answer(project, "clean", "--dry-run", "--older-than", "0d", "--json")
    assert foretold["dry_run"]
    assert {item["kind"] for item in foretold["freed"]} == {"workspace", "attempt"}
    assert [item["name"] for item in foretold["kept"]] == [told["branch"]]
    shown = weft(project, "clean", "--older-than", "0d")
    assert shown.returncode == 0, shown
    assert "freed  workspace ../project.weft/weft-1: no task uses it, " in shown.stdout
    assert f"kept   branch {told['branch']}: the result of task 1, not in your" in shown.stdout
    assert "Freed 1 attempt, 1 workspace: " in shown.stdout
    assert weft(project, "clean", "--older-than", "0d").stdout.endswith("Freed nothing: 0 bytes.\n")


def test_an_age_that_is_none_gets_one_sentence(tmp_path: Path) -> None:
    done = weft(make_project(tmp_path / "project"), "clean", "--older-than", "long")
    assert_one_sentence(done, 2, "--older-than", "12h, 14d or 0d", "'long'")
