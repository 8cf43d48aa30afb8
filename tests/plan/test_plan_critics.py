"""Critics of an agent's plan: nothing in it is believed."""

from __future__ import annotations

from msgspec.structs import replace

from cases import each_case
from weft import plan
from weft.plan.critics import MOST_TASKS, AgentBounds, RepositoryFacts, criticise
from weft.plan.plan_records import Problem

FACTS = RepositoryFacts(
    paths=frozenset({"src/app.py", "src/hub.py", "tests/test_app.py", "odd[1].py"}),
    hubs={"src/hub.py": 0.31},
    agents={"implement": AgentBounds(seconds=3600, micro_usd=2_000_000), "quick": AgentBounds()},
    agent="implement",
    seconds={},
)
GOOD = """\
# Plan

## Phase 1: All
<!-- execution: parallel -->

- [ ] Task 1: Change the app
  <!-- files: src/app.py, tests/; check: make test; reads: src/ -->
- [ ] Task 2: Write the new module
  <!-- new: src/auth.py; check: make test -->
- [ ] Task 3: Use the new module
  <!-- files: src/hub.py; reads: src/auth.py; check: make test; depends: task2; budget: $1, 30m -->
"""


def findings(text: str, facts: RepositoryFacts = FACTS) -> list[Problem]:
    read = plan.read("plan.md", text.encode())
    return list(criticise(plan.compile(read.plan), facts))


def one_task(notes: str, text: str = "Change the app") -> str:
    return f"- [ ] Task 1: {text}\n  <!-- {notes} -->\n"


def test_a_plan_that_fits_the_repository_passes() -> None:
    assert findings(GOOD) == []


@each_case(
    ("notes", "code", "words"),
    [
        ("files: src/ap.py; check: x", "no-such-path", "src/ap.py"),
        ("files: lib/**; check: x", "no-such-path", "lib/**"),
        ("files: src/app.py/x.py; check: x", "no-such-path", "src/app.py/x.py"),
        ("files: src/app.py; reads: doc.md; check: x", "no-such-path", "doc.md"),
        ("new: src/app.py; check: x", "not-new", "src/app.py"),
        ("files: src/app.py", "no-check", "1.1"),
        ("files: src/app.py; check: x; budget: 90m", "too-large-task", "1 h 30 min"),
        ("files: src/app.py; check: x; budget: $3", "too-large-task", "$3.00"),
        ("files: src/app.py; check: x; agent: quik", "unknown-agent", "quik"),
    ],
)
def test_each_critic_finds_its_fault_at_the_line_of_the_task(
    notes: str, code: str, words: str
) -> None:
    [problem] = findings(one_task(notes))
    assert (problem.code, problem.line) == (code, 1)
    assert words in problem.message


@each_case("path", ["src/app.py", "src/", "src", "src/*.py", "**/app.py", "odd[[]1].py"])
def test_a_file_a_directory_or_a_pattern_of_the_repository_exists(path: str) -> None:
    assert findings(one_task(f"files: {path}; check: x")) == []


def test_a_split_may_name_the_new_files_of_its_story() -> None:
    split = one_task("files: src/app.py, src/to_come.py; check: x")
    assert [each.code for each in findings(split)] == ["no-such-path"]
    assert findings(split, replace(FACTS, new=frozenset({"src/to_come.py"}))) == []


@each_case(
    ("text", "is_one"),
    [
        ("TODO", True),
        ("TBD: decide later", True),
        ("Write the parser (TBD)", True),
        ("Write ???", True),
        ("...", True),
        ("Change <your module>", True),
        ("Read the TODO comments of the parser", False),
        ("Show … behind long names", False),
        ("Add a <div> to the page", False),
    ],
)
def test_a_placeholder_is_found_and_words_about_placeholders_are_not(
    text: str, is_one: bool
) -> None:
    codes = [problem.code for problem in findings(one_task("files: src/app.py; check: x", text))]
    assert codes == ["placeholder"] * is_one


def test_a_task_expected_to_take_longer_than_its_agent_may_is_too_large() -> None:
    text = one_task("files: src/app.py; check: x")
    facts = RepositoryFacts(
        paths=FACTS.paths, hubs={}, agents=FACTS.agents, agent="implement", seconds={"1.1": 7200}
    )
    assert [problem.code for problem in findings(text, facts)] == ["too-large-task"]
    assert findings(one_task("files: src/app.py; check: x; agent: quick"), facts) == []


def hub_plan(phase: str, depends: str) -> str:
    return (
        f"## Phase 1: All\n<!-- execution: {phase} -->\n"
        "- [ ] Task 1: One\n  <!-- files: src/hub.py; check: x -->\n"
        "- [ ] Task 2: Two\n  <!-- files: src/app.py; check: x; depends: task1 -->\n"
        f"- [ ] Task 3: Three\n  <!-- files: src/h*.py; check: x; depends: {depends} -->\n"
    )


def test_two_tasks_that_may_run_at_once_share_no_hub() -> None:
    [problem] = findings(hub_plan("parallel", ""))
    assert (problem.code, problem.line) == ("shared-hub", 7)
    assert "1.1 and 1.3" in problem.message
    assert "31%" in problem.message
    assert findings(hub_plan("parallel", "task2")) == [], "1.3 waits for 1.1 through 1.2"
    assert findings(hub_plan("sequential", "")) == []


def test_a_plan_of_thousands_of_tasks_is_refused_as_a_whole() -> None:
    text = "".join(f"- [ ] Task {number}: TODO\n" for number in range(1, MOST_TASKS + 2))
    assert [problem.code for problem in findings(text)] == ["too-many-tasks"]


def test_tasks_of_a_person_and_tasks_that_are_done_need_no_check() -> None:
    text = "- [x] Task 1: Done\n- [ ] Task 2: Look\n  <!-- agent: human -->\n"
    assert findings(text) == []
