"""A review in the browser: comments on lines, a second round, and the accepted tree."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from browser.page_stage import page_stage

ANSWERS = r"```weft-review\n1 handled: renamed\n2 answered: it is right\n3 handled: gone\n```"
PLAN = rf"""# Lines

- [ ] Task 1: Write lines
  <!-- files: one.txt -->
  script: attempt 1: write one.txt first\nsecond\nthird\nfourth
  script: attempt 2: write one.txt FIRST\nsecond\nthird
  script: attempt 2: answer done\n{ANSWERS}
"""


def test_three_comments_a_second_round_and_an_accepted_tree(
    browser: Browser, tmp_path: Path
) -> None:
    with page_stage(browser, tmp_path) as stage:
        page = stage.open()
        stage.run(PLAN, review=True)
        page.get_by_role("link", name="Open the diff").click()
        expect(page.locator("h1")).to_contain_text("Review of")
        for line, last, words in ((1, 1, "shout"), (2, 3, "why these?"), (4, 4, "remove")):
            page.get_by_role("link", name=f"New line {line}: comment").click()
            box = page.get_by_label(f"Comment on line {line} of one.txt")
            box.fill(words)
            if line == 1:
                page.reload()
                expect(box).to_have_value(words)
            page.get_by_label("To line").fill(str(last))
            box.press("Control+Enter")
            expect(page.locator(".note .text", has_text=words)).to_be_visible()
        expect(page.locator(".note", has_text="Lines 2-3")).to_be_visible()
        page.get_by_role("button", name="Send 3 comments").click()
        expect(page.locator("#said")).to_contain_text("Round 1 goes to the agent")
        stage.go(page, "needs")
        page.get_by_role("link", name="Open the diff").click()
        comments = page.locator(".comments")
        expect(comments).to_contain_text("handled renamed")
        expect(comments).to_contain_text("answered it is right")
        page.get_by_role("link", name="Since the last round").click()
        expect(page.locator(".code.added")).to_have_count(1)
        expect(page.locator(".code.removed")).to_have_count(2)
        page.get_by_role("button", name="Accept").click()
        expect(page.locator("h1 .tag")).to_have_text("done")
        landed = stage.server.client().get("/v1/runs")["runs"][0]
        assert landed["state"] == "ended"
