"""The page in a real browser, as a person uses it."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from browser.page_stage import page_stage

PLAN = """# Shop

## Phase 1: All

- [ ] Task 1.1: Write the first file
  <!-- files: a.txt -->
  script: say hello from the first
  script: write a.txt one
- [ ] Task 1.2: Decide the colour
  <!-- agent: human -->
- [ ] Task 1.3: Write the second file
  <!-- files: b.txt, needs: 1.2 -->
  script: write b.txt two
"""


def test_a_person_answers_a_question_and_the_run_goes_on(browser: Browser, tmp_path: Path) -> None:
    with page_stage(browser, tmp_path) as stage:
        page = stage.open()
        assert "code=" not in page.url
        expect(page.locator("h1")).to_have_text("Needs you")
        run = stage.run(PLAN)
        row = page.locator("[data-row]")
        expect(row).to_contain_text("Decide the colour")
        expect(row).to_contain_text("1 task waits behind it")
        expect(page).to_have_title("(1) Needs you · weft")
        row.get_by_role("button", name="Approve").click()
        expect(row).to_have_count(0)
        stage.go(page, f"now?run={run}")
        expect(page.get_by_text("No task")).to_be_visible()
        stage.go(page, "task/1")
        expect(page.locator("#log")).to_contain_text("hello from the first")
