"""The page in a real browser, as a person uses it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from browser.page_stage import PageStage, page_stage
from cli.shell import runs
from wait_until import wait_until
from weft.store.limit_table import set_limit

PLAN = """# Shop

## Phase 1: All
<!-- execution: parallel -->

- [ ] Task 1.1: Write the first file
  <!-- files: a.txt -->
  script: say hello from the first
  script: write a.txt one
- [ ] Task 1.2: Decide the colour
  <!-- agent: human -->

## Phase 2: More

- [ ] Task 2.1: Write the second file
  <!-- files: b.txt -->
  script: write b.txt two
"""
EVIL = "<img src=x onerror=document.title='stolen'><script>document.title='stolen'</script>"
PRINTS = """import sys
print(sys.argv[1])
print(chr(27) + '[31mred' + chr(27) + '[2J')
print('x' * 10_000_000)
print('the end')
"""
HOSTILE = runs("python3", "-c", PRINTS, EVIL)
LONG = runs("python3", "-c", "for n in range(100_000): print('line', n)")
VIEWS = (
    *("needs", "now", "timeline", "graph", "landing", "files", "limits", "spend", "plan", "report"),
    *("diff/1", "task/1", "task/1/attempts", "task/1/prompt"),
)


@pytest.fixture(scope="module")
def stage(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageStage]:
    """One server for all tests; each has tasks of its own."""
    directory = tmp_path_factory.mktemp("page")
    agents = {"hostile": HOSTILE, "long": LONG}
    with page_stage(browser, directory, "--slots", "4", agents=agents) as started:
        yield started


def plan(*lines: str) -> str:
    """A plan of one task."""
    body = "".join(f"  {line}\n" for line in lines[1:])
    return f"# Plan\n\n## Phase 1: All\n\n- [ ] Task 1.1: {lines[0]}\n{body}"


def row_of(page: Page, words: str) -> Locator:
    return page.locator("[data-row]").filter(has_text=words)


def task_of(row: Locator) -> int:
    """Return the number of the task in a row."""
    address = row.locator("a").first.get_attribute("href")
    assert address is not None
    return int(address.rpartition("/")[2])


def test_a_run_is_followed_to_its_end_and_a_question_answered(stage: PageStage) -> None:
    page = stage.open()
    assert "code=" not in page.url
    expect(page.locator("h1")).to_have_text("Needs you")
    run = stage.run(PLAN)
    row = row_of(page, "Decide the colour")
    expect(row).to_contain_text("1 task waits behind it")
    expect(page).to_have_title("(1) Needs you · weft")
    expect(page.locator("#icon")).to_have_attribute("href", re.compile("^data:image/svg"))
    row.get_by_role("button", name="Approve").click()
    expect(row).to_have_count(0)
    expect(page).to_have_title("Needs you · weft")
    stage.go(page, f"landing?run={run}")
    expect(page.get_by_text("tested = landed")).to_have_count(2)
    page.go_back()
    expect(page.locator("h1")).to_have_text("Needs you")
    page.go_forward()
    expect(page.locator("h1")).to_have_text("Landing")
    page.reload()
    expect(page.get_by_text("tested = landed")).to_have_count(2)
    page.close()


def test_a_link_with_a_false_code_does_not_log_a_tab_out(stage: PageStage) -> None:
    page = stage.open()
    page.evaluate("location.hash = '#code=x'")
    page.wait_for_function("location.hash === '#/'")
    expect(page.locator("#stream")).to_have_text("live")
    page.reload()
    expect(page.locator("h1")).to_have_text("Needs you")
    page.close()


def test_the_page_shows_views_alone_and_never_an_agents_words_as_markup(stage: PageStage) -> None:
    page = stage.open("now")
    words = "<h1 id=attack>Mine</h1>"
    stage.run(
        plan("Attack", "<!-- files: t.txt -->", f"script: say {words}", "script: write t.txt x")
    )
    task = task_of(row_of(page, "Attack"))
    stage.go(page, f"task/{task}")
    expect(page.locator("#log")).to_contain_text(words)
    page.evaluate(f"location.hash = '#/task/{task}/download'")
    expect(page.locator("main")).to_contain_text("This is no view of the page.")
    assert page.locator("#attack").count() == 0
    page.evaluate(f"location.hash = '#/../v1/tasks/{task}'")
    expect(page.locator("h1")).to_have_text("Needs you")
    assert page.locator("#attack").count() == 0
    page.close()


def test_a_failed_task_gets_a_message_and_is_retried_with_a_note(stage: PageStage) -> None:
    page = stage.open()
    stage.run(
        plan("Break", "<!-- files: f.txt -->", "script: attempt 1: fail other It broke",
             "script: say I go on", "script: write f.txt x")
    )  # fmt: skip
    row = row_of(page, "Break")
    expect(row).to_contain_text("It broke")
    task = task_of(row)
    stage.go(page, f"task/{task}/messages")
    page.get_by_label("Message to the agent").fill("Mind the gap")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".messages")).to_contain_text("waits for the agent")
    stage.go(page, "needs")
    row.get_by_text("Retry…").click()
    row.get_by_label("Note or answer").fill("Once more, please")
    page.keyboard.press("Control+Enter")
    expect(row).to_have_count(0)
    stage.go(page, f"task/{task}/messages")
    expect(page.locator("#message-1")).to_contain_text("heard")
    stage.go(page, f"task/{task}/prompt")
    expect(page.locator("pre")).to_contain_text("Once more, please")
    page.close()


def test_a_raised_limit_lets_the_next_task_start(stage: PageStage) -> None:
    with stage.server.open_store() as store:
        set_limit(store, "requests", 0, now=1.0)
    page = stage.open()
    run = stage.run(plan("Wait for the limit", "<!-- files: g.txt -->", "script: write g.txt x"))
    row = row_of(page, "the limit requests")
    row.get_by_text("Raise the limit…").click()
    row.get_by_label("New value").fill("24")
    page.keyboard.press("Enter")
    expect(row).to_have_count(0)
    stage.go(page, f"landing?run={run}")
    expect(page.get_by_text("tested = landed")).to_have_count(1)
    page.close()


def test_a_limit_is_changed_in_place_and_weft_drained(stage: PageStage) -> None:
    page = stage.open("limits")
    row = page.locator('[id="limit-llm"]')
    row.get_by_text("Change…").click()
    row.get_by_label("New value").fill("7")
    page.keyboard.press("Enter")
    expect(row).to_contain_text("of 7")
    page.get_by_role("button", name="Drain").click()
    expect(page.get_by_text("Drained since")).to_be_visible()
    page.get_by_role("button", name="Start tasks again").click()
    expect(page.get_by_text("Tasks start as limits allow")).to_be_visible()
    page.close()


def test_a_lost_server_is_said_and_nothing_is_missed(stage: PageStage) -> None:
    page = stage.open()
    stage.server.kill()
    expect(page.locator("#stream")).to_have_text("reconnecting")
    task = stage.ask("Asked while the server was away")
    stage.server.start()
    expect(page.locator("#stream")).to_have_text("live")
    row = row_of(page, f"task {task}")
    expect(row).to_be_visible()
    row.get_by_role("button", name="Skip").click()
    expect(row).to_have_count(0)
    page.close()


def test_the_header_says_since_when_the_page_is_stale(stage: PageStage) -> None:
    person = stage.person()
    page = person.new_page()
    page.clock.install()
    page.goto(person.link())
    expect(page.locator("#stream")).to_have_text("live")
    person.context.set_offline(True)
    stage.server.kill()
    expect(page.locator("#stream")).to_have_text("reconnecting")
    page.clock.fast_forward(14_000)
    expect(page.locator("#stream")).to_contain_text("stale since 1")
    stage.server.start()
    person.context.set_offline(False)
    page.clock.fast_forward(6_000)
    expect(page.locator("#stream")).to_have_text("live")
    person.context.close()


def followers(stage: PageStage) -> int:
    answer = stage.server.client().http.get("/metrics").text
    [line] = [line for line in answer.splitlines() if line.startswith("weft_followers ")]
    return int(float(line.split()[1]))


def test_eight_tabs_share_one_stream(stage: PageStage) -> None:
    person = stage.person()
    before = followers(stage)
    first = person.open()
    pages = [first, *(person.new_page() for _ in range(7))]
    for page in pages[1:]:
        page.goto(f"{stage.server.url}/#/needs")
        expect(page.locator("#stream")).to_have_text("live")
    assert followers(stage) == before + 1
    task = stage.ask("Seen in eight tabs")
    for page in pages:
        page.bring_to_front()
        expect(row_of(page, f"task {task}")).to_be_visible()
    first.close()
    pages[1].bring_to_front()
    row_of(pages[1], f"task {task}").get_by_role("button", name="Skip").click()
    expect(row_of(pages[1], f"task {task}")).to_have_count(0)
    expect(pages[1].locator("#stream")).to_have_text("live")
    wait_until(lambda: followers(stage) == before + 1)
    person.context.close()


def test_on_a_phone_nothing_scrolls_sideways(stage: PageStage) -> None:
    task = stage.ask("A question with a long text " + "word" * 40)
    page = stage.open()
    page.set_viewport_size({"width": 390, "height": 844})
    for view in VIEWS:
        stage.go(page, view)
        expect(page.locator("h1")).to_be_visible()
        wide = page.evaluate(
            "document.documentElement.scrollWidth <= 390 ? [] : "
            "[...document.querySelectorAll('body *')]"
            ".filter(e => e.getBoundingClientRect().right > 391).map(e => e.outerHTML)"
        )
        assert wide == [], view
        low = page.evaluate(
            "[...document.querySelectorAll('main button:not([hidden]), main summary')]"
            ".filter(e => e.offsetHeight && e.offsetHeight < 44).map(e => e.outerHTML)"
        )
        assert low == [], view
    stage.go(page, "needs")
    row = row_of(page, f"task {task}")
    row.get_by_role("button", name="Skip").click()
    expect(row).to_have_count(0)
    page.close()


def test_the_keyboard_alone_suffices(stage: PageStage) -> None:
    first, second = stage.ask("First question"), stage.ask("Second question")
    page = stage.open()
    expect(row_of(page, f"task {second}")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    for keys, title in (("gn", "Now"), ("gl", "Landing"), ("gi", "Limits"), ("gh", "Needs you")):
        for key in keys:
            page.keyboard.press(key)
        expect(page.locator("h1")).to_have_text(title)
    row = row_of(page, f"task {first}")
    page.keyboard.press("j")
    expect(row).to_have_attribute("aria-selected", "true")
    expect(row).to_be_focused()
    page.keyboard.press("r")
    expect(row.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("j is only a letter here")
    page.keyboard.press("Control+Enter")
    expect(row).to_contain_text("needs you")
    page.keyboard.press("Escape")
    selected = page.locator("[aria-selected=true]")
    expect(selected).to_have_count(1)
    page.keyboard.press("k")
    page.keyboard.press("s")
    expect(page.locator("[data-row]")).to_have_count(1)
    page.keyboard.press("k")
    page.keyboard.press("s")
    expect(page.locator("[data-row]")).to_have_count(0)
    page.evaluate("localStorage.setItem('weft keys', 'off')")
    page.keyboard.press("g")
    page.keyboard.press("n")
    expect(page.locator("h1")).to_have_text("Needs you")
    page.evaluate("localStorage.removeItem('weft keys')")
    page.close()


def test_updates_keep_what_is_typed_selected_and_scrolled(stage: PageStage) -> None:
    task = stage.ask("Where I write")
    page = stage.open()
    row = row_of(page, f"task {task}")
    row.get_by_text("Reject…").click()
    text = row.get_by_label("Reason")
    text.fill("half a sent")
    page.evaluate("document.activeElement.setSelectionRange(2, 5)")
    other = stage.ask("Comes meanwhile")
    expect(row_of(page, f"task {other}")).to_be_visible()
    expect(text).to_be_focused()
    expect(text).to_have_value("half a sent")
    assert page.evaluate("document.activeElement.selectionStart") == 2
    page.reload()
    row.get_by_text("Reject…").click()
    expect(text).to_have_value("half a sent")
    for number in (task, other):
        row_of(page, f"task {number}").get_by_role("button", name="Skip").click()
        expect(row_of(page, f"task {number}")).to_have_count(0)
    page.close()


def test_a_hostile_agent_is_shown_as_text(stage: PageStage) -> None:
    page = stage.open("now")
    stage.run(plan(f"Print {EVIL}", "<!-- agent: hostile -->", "<!-- files: h.txt -->"))
    stage.go(page, "needs")
    task = task_of(row_of(page, "Print"))
    for view in ("needs", "now", f"task/{task}", f"task/{task}/events", f"task/{task}/prompt"):
        stage.go(page, view)
        expect(page.locator("h1")).to_be_visible()
        assert page.locator("main img, main script").count() == 0
        assert "stolen" not in page.title()
    stage.go(page, f"task/{task}/log")
    expect(page.locator("#log")).to_contain_text("onerror=document.title")
    expect(page.locator("#log")).to_contain_text("characters)")
    expect(page.locator("#log")).to_contain_text("the end")
    stage.go(page, "needs")
    row_of(page, "Print").get_by_role("button", name="Skip").click()
    page.close()


def test_a_log_of_100_000_lines_is_paged_searched_and_linked(stage: PageStage) -> None:
    page = stage.open("needs")
    stage.run(plan("Talk", "<!-- agent: long -->", "<!-- files: l.txt -->"))
    task = task_of(row_of(page, "Talk"))
    stage.go(page, f"task/{task}")
    log = page.locator("#log")
    expect(log).to_contain_text("line 99999")
    assert log.locator("li").count() <= 500
    page.get_by_label("Search the log").fill("line 77777")
    expect(page.locator(".matches")).to_contain_text("line 77777")
    assert "q=line" in page.url
    page.locator(".matches a").click()
    target = log.locator("[data-target]")
    expect(target).to_contain_text("line 77777")
    expect(target).to_be_in_viewport()
    with page.expect_download() as saved:
        page.get_by_text("Download").click()
    assert saved.value.path().read_text().count("\n") == 100_000
    stage.go(page, "needs")
    row_of(page, "Talk").get_by_role("button", name="Skip").click()
    page.close()


def test_a_log_follows_at_its_end_only(stage: PageStage) -> None:
    page = stage.open("now")
    lines = ["script: print 200 early", *["script: sleep 0.5", "script: print 10 later"] * 12]
    stage.run(plan("Go on", "<!-- files: k.txt -->", *lines, "script: write k.txt x"))
    task = task_of(row_of(page, "Go on"))
    stage.go(page, f"task/{task}")
    log = page.locator("#log")
    expect(log).to_contain_text("later")
    assert log.evaluate("e => e.scrollHeight - e.scrollTop - e.clientHeight") < 40
    log.evaluate("e => { e.scrollTop = 300 }")
    expect(page.locator("#log-end")).to_contain_text("new")
    assert log.evaluate("e => e.scrollTop") == 300
    page.locator("#log-end").click()
    expect(page.locator("#log-end")).to_be_hidden()
    page.close()


def test_a_link_that_was_used_or_a_token_that_expired_says_how_to_get_another(
    stage: PageStage,
) -> None:
    link = stage.link()
    person = stage.person()
    page = person.new_page()
    page.goto(link)
    expect(page.locator("#stream")).to_have_text("live")
    token = page.evaluate("Object.values(sessionStorage).find(v => v.startsWith('weft_'))")
    assert token not in page.url
    stranger = stage.person()
    second = stranger.new_page()
    second.goto(link)
    expect(second.locator("h1")).to_have_text("This page needs a new link")
    expect(second.locator("main")).to_contain_text("weft open")
    number = str(token).split("_")[1]
    httpx.delete(
        f"{stage.server.url}/v1/tokens/{number}",
        headers={"Authorization": f"Bearer {stage.server.token}"},
    ).raise_for_status()
    expect(page.locator("h1")).to_have_text("This page needs a new link")
    person.context.close()
    stranger.context.close()


def test_a_reader_has_no_buttons(stage: PageStage) -> None:
    task = stage.ask("For admins alone")
    reader = stage.person()
    page = reader.open("needs", "read")
    expect(row_of(page, f"task {task}")).to_be_visible()
    assert page.locator("main button, main summary").count() == 0
    reader.context.close()
    stage.server.client().post("/v1/skip", {"task": task})
