"""A plan written and run in the browser, and the views of the run."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from browser.page_stage import page_stage

BAD = """# Shop

- [ ] Task 1: Write the first file
  <!-- files: a.txt -->
  script: write a.txt one
- [ ] Task 2: Write the second file
  <!-- files: b.txt; depends: task9 -->
  script: write b.txt two
"""


def test_a_plan_is_written_mended_and_run(browser: Browser, tmp_path: Path) -> None:
    with page_stage(browser, tmp_path) as stage:
        page = stage.open("plan")
        page.get_by_label("Plan", exact=True).fill(BAD)
        problem = page.locator("#compiled .problem")
        expect(problem.filter(has_text="line 7")).to_be_visible()
        page.get_by_label("Plan", exact=True).fill(BAD.replace("task9", "task1"))
        expect(page.locator("#compiled svg").first).to_be_visible()
        expect(page.locator("#compiled")).to_contain_text("About")
        page.reload()
        expect(page.get_by_label("Plan", exact=True)).to_have_value(BAD.replace("task9", "task1"))
        page.get_by_role("button", name="Run this plan").click()
        expect(page.locator("#said")).to_contain_text("has begun")
        expect(page.locator("h1")).to_have_text("Now")
        stage.go(page, "report")
        expect(page.locator("article")).to_contain_text("2 of 2")
        expect(page.locator("article")).to_contain_text("weft land")
        stage.go(page, "graph")
        expect(page.locator("svg .node")).to_have_count(2)
        stage.go(page, "timeline")
        page.locator("svg a[href*='task/']").first.click()
        expect(page.locator("#log")).to_be_visible()
        page.go_back()
        expect(page.locator("h1")).to_have_text("Timeline")
