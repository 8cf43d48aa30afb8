"""Screenshots of every view, wide and narrow, light and dark: `make screenshots`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import expect

from browser.page_stage import PageStage, chromium, page_stage

PLAN: Final = """# Opening of the shop

## Phase 1: Menu
<!-- execution: parallel -->

- [ ] Task 1.1: Add tea to the menu
  <!-- files: menu/tea.txt -->
  script: say The menu has coffee only; I add tea below it
  script: tool Read menu/coffee.txt
  script: use 5200 830 0.042
  script: write menu/tea.txt Tea, 2.40
- [ ] Task 1.2: Decide the price of tea
  <!-- agent: human -->
- [ ] Task 1.3: Print the price on the receipt
  <!-- files: till/receipt.txt -->
  script: use 900 120 0.011
  script: fail other The till has no template for a second line
- [ ] Task 1.4: Paint the door
  <!-- files: door.txt -->
  script: say The old paint comes off first
  script: tool Bash ls -la door
  script: sleep 600
- [ ] Task 1.5: Oil the hinges
  <!-- files: door.txt -->
  script: sleep 600

## Phase 2: Opening

- [ ] Task 2.1: Open the shop
  <!-- files: sign.txt -->
  script: write sign.txt open
"""
REVIEWED: Final = r"""# Sign

- [ ] Task 1: Write the sign of the shop
  <!-- files: shop.txt -->
  script: use 700 90 0.008
  script: write shop.txt Tea and coffee\nOpen from nine
"""
SHOWN: Final = (
    "review/8",
    "review/8?path=shop.txt&side=new&line=2",
    "needs",
    "now",
    "timeline",
    "graph",
    "landing",
    "files",
    "limits",
    "spend",
    "plan",
    "report",
    "diff/1",
    "task/1",
    "task/1/attempts",
    "task/1/checks",
    "task/1/prompt",
    "task/1/events",
    "task/1/messages",
    "task/4",
)
"""The addresses of the views; the tasks are those of the plan."""

SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")


def fill(stage: PageStage) -> None:
    """Bring about decisions, work under way and landed work."""
    run = stage.run(PLAN)
    page = stage.open()
    stage.ask("Which colour has the door?")
    expect(page.locator("[data-row]")).to_have_count(2)
    stage.run(REVIEWED, review=True)
    expect(page.locator("[data-row]")).to_have_count(3)
    stage.go(page, "task/4")
    expect(page.locator("#log")).to_contain_text("Bash")
    stage.go(page, f"landing?run={run}")
    expect(page.get_by_text("tested = landed")).to_have_count(1)
    page.close()


def shoot(stage: PageStage, directory: Path) -> None:
    page = stage.open()
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        for width, height in ((1400, 900), (390, 844)):
            page.set_viewport_size({"width": width, "height": height})
            for view in SHOWN:
                stage.go(page, view)
                expect(page.locator("h1")).to_be_visible()
                name = view.partition("&")[0].replace("/", "-").replace("?", "-")
                page.screenshot(path=directory / f"{name}-{width}-{scheme}.png")


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as place,
        chromium() as browser,
        page_stage(browser, Path(place), "--slots", "3") as stage,
    ):
        fill(stage)
        shoot(stage, directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
