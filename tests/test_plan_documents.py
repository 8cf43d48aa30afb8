"""docs/plans.md: its examples are plans without errors, and its table has every key."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from weft import plan
from weft.cli import weft
from weft.model import State
from weft.plan.annotations import LIST_KEYS, PHASE_KEYS
from weft.plan.attributes import ATTRIBUTES
from weft.plan.plan_records import Severity, Source

PAGE = (Path(__file__).parent.parent / "docs" / "plans.md").read_text()


def example(language: str, number: int = 0) -> bytes:
    texts = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(texts[number]).encode()


def test_the_example_of_a_plan_is_read_as_the_page_says() -> None:
    parsed = plan.read("plan.md", example("markdown"))
    assert [each for each in parsed.problems if each.severity is Severity.ERROR] == []
    by_id = {task.id: task for task in parsed.plan.tasks}
    assert list(by_id) == ["1.1", "1.2", "1.3", "B.1"]
    assert by_id["1.1"].title == "Create the auth module"
    assert (by_id["1.2"].files, by_id["1.2"].check) == (("src/config/**",), "npm test -- config")
    assert (by_id["1.3"].status, by_id["1.3"].note) == (
        State.BLOCKED,
        "waits for the security team",
    )


def test_the_example_of_a_prd_has_no_problems() -> None:
    parsed = plan.read("prd.json", example("json"))
    assert (len(parsed.plan.tasks), parsed.problems) == (2, ())


def test_the_example_of_task_master_is_read_as_the_page_says() -> None:
    parsed = plan.read("tasks.json", example("json", 1))
    assert parsed.plan.source is Source.TASK_MASTER
    assert [(task.id, task.status) for task in parsed.plan.tasks] == [
        ("1.1", State.DONE),
        ("1.2", State.WAITING),
        ("1", State.WAITING),
    ]
    assert parsed.problems == ()


def test_the_page_explains_every_key_and_format() -> None:
    documented = ATTRIBUTES.keys() - {"team", "review"} | LIST_KEYS | PHASE_KEYS
    rows = {key for row in re.findall(r"^\| (`[^|]+) \|", PAGE, re.M) for key in row.split(", ")}
    assert {key for key in documented if f"`{key}`" not in rows} == set()
    assert {str(kind) for kind in Source if str(kind).lower() not in PAGE.lower()} == set()


def test_the_help_of_weft_plan_ends_with_an_example_and_every_key() -> None:
    shown = CliRunner().invoke(weft, ["plan", "--help"], terminal_width=80).output
    behind = shown[shown.index("Example of a plan.md") :]
    documented = ATTRIBUTES.keys() - {"team", "review"} | LIST_KEYS | PHASE_KEYS
    assert {key for key in documented if key not in behind} == set()
    assert max(len(line) for line in shown.splitlines()) <= 80
