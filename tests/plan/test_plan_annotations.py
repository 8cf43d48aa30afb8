"""Annotations: keys, values, lists, and the errors in them."""

from __future__ import annotations

from cases import each_case
from plan.planning import codes, errors, only, problems, reading, tasks
from weft.model import Class, Priority
from weft.plan.plan_records import Budget, PlanTask
from weft.teams.team_text import Strategy, Team


def annotated(*lines: str) -> PlanTask:
    (task,) = tasks("- [ ] a\n" + "".join(f"  <!-- {line} -->\n" for line in lines)).values()
    return task


def wrong(*lines: str) -> list[str]:
    text = "- [ ] a\n" + "".join(f"  <!-- {line} -->\n" for line in lines)
    return codes(errors(problems(text)))


def test_every_key_of_a_task_is_read() -> None:
    task = annotated(
        "files: src/a.ts",
        "reads: docs/spec.md",
        "agent: claude; stages: test, implement",
        "priority: high; class: batch",
        "budget: $3, 30m; uses: port=1, ram_gb=2",
        "check: make test",
        "needs_labels: gpu, arm64",
        "team: 3 of claude",
        "id: one",
        "parallel-group: core setup",
    )
    assert task.files == ("src/a.ts",)
    assert task.reads == ("docs/spec.md",)
    assert task.agent == "claude"
    assert task.stages == ("test", "implement")
    assert task.priority is Priority.HIGH
    assert task.klass is Class.BATCH
    assert task.budget == Budget(usd=3.0, seconds=1800)
    assert dict(task.uses) == {"port": 1, "ram_gb": 2}
    assert task.check == "make test"
    assert task.needs_labels == ("gpu", "arm64")
    assert task.team == Team(strategy=Strategy.BEST_OF, size=3, agents=("claude",) * 3)
    assert task.id == "one"
    assert task.group == "core setup"


@each_case(
    "comment",
    [
        "files: a, b",
        "files: a\n       b",
        "files:\n    - a\n    - b\n ",
        "files: a; files: b",
        "files: a\n  files: b",
        "writes: a; files: b",
        "FILES: a, b",
        "files: `a`, 'b'",
    ],
)
def test_lists_are_written_in_many_ways(comment: str) -> None:
    assert annotated(comment).files == ("a", "b")


def test_a_repeated_key_adds_to_a_list() -> None:
    assert annotated("files: a", "files: b").files == ("a", "b")


def test_a_repeated_single_value_is_an_error() -> None:
    assert wrong("agent: claude", "agent: codex") == ["repeated-key"]


def test_quotes_keep_commas_and_semicolons() -> None:
    assert annotated('files: "a,b.ts", "c;d.ts", e.ts').files == ("a,b.ts", "c;d.ts", "e.ts")


def test_a_command_keeps_its_semicolons() -> None:
    task = annotated("check: make lint; make test; files: a")
    assert task.check == "make lint; make test"
    assert task.files == ("a",)


@each_case(
    ("value", "budget"),
    [
        ("$3", Budget(usd=3.0)),
        ("2.50 usd", Budget(usd=2.5)),
        ("1h30m", Budget(seconds=5400)),
        ("90s, $1", Budget(usd=1.0, seconds=90)),
        ("30min", Budget(seconds=1800)),
    ],
)
def test_budgets_are_money_and_time(value: str, budget: Budget) -> None:
    assert annotated(f"budget: {value}").budget == budget


@each_case(
    "line",
    [
        "priority: urgent",
        "class: fast",
        "budget: lots",
        "budget: ",
        "uses: port",
        "uses: port=0",
        "uses: label:gpu=1",
        "needs_labels: GPU",
        "needs_labels: a b",
        "needs_labels: gpu,,arm64",
        "needs_labels:",
        f"needs_labels: {','.join(f'a{n}' for n in range(33))}",
        "team: claude",
        "team: 0 of claude",
        "agent: two words",
        "id: two words",
        "check:",
        "parallel-group:",
        "files: none, a.ts",
    ],
)
def test_values_that_mean_nothing_are_errors(line: str) -> None:
    assert wrong(line) == ["bad-value"]


def test_a_value_close_to_a_known_one_gets_a_suggestion() -> None:
    problem = only(problems("- [ ] a\n  <!-- priority: hihg -->\n"), "bad-value")
    assert problem.suggestion == "Did you mean 'high'?"
    assert (problem.line, problem.column) == (2, 8)


def test_a_key_close_to_a_known_one_is_a_warning_with_a_suggestion() -> None:
    problem = only(problems("- [ ] a\n  <!-- dependes: task1 -->\n"), "unknown-key")
    assert (problem.severity, problem.suggestion) == ("warning", "Did you mean 'depends'?")


def test_an_unknown_key_beside_a_known_one_is_a_warning() -> None:
    reported = problems("- [ ] a\n  <!-- files: a; colour: red -->\n")
    assert codes(reported) == ["unknown-key"]
    assert (reported[0].line, reported[0].column) == (2, 18)


def test_text_without_a_key_beside_a_known_one_is_a_warning() -> None:
    assert codes(problems("- [ ] a\n  <!-- files: a; and so on -->\n")) == ["stray-text"]


def test_phase_keys_on_a_task_and_task_keys_on_a_phase_are_warnings() -> None:
    reported = problems(
        "## Phase 1: a\n<!-- files: a -->\n- [ ] a\n  <!-- execution: parallel -->\n"
    )
    assert sorted(codes(reported)) == ["misplaced-key", "misplaced-key", "no-files"]


def test_an_annotation_without_a_task_is_a_warning() -> None:
    reported = problems("## Overview\n<!-- execution: parallel -->\n## Phase 1: a\n- [-] a\n")
    assert codes(reported) == ["lost-annotation"]


def test_execution_is_parallel_or_sequential() -> None:
    problem = only(problems("## P\n<!-- execution: paralel -->\n- [-] a\n"), "bad-value")
    assert problem.suggestion == "Did you mean 'parallel'?"


TEAMS = {
    "team: hedge; files: a": [],
    "team: hedge; risky: yes; files: a": [],
    "team: best-of 3; judge: judge; files: a": [],
    "team: panel(a, b); files: a": ["bad-value"],
    "team: many words; files: a": ["bad-value"],
    "team: 1 of claude; files: a": ["bad-value"],
    "team: claude; files: a": ["bad-value"],
    "team: hedge; judge: judge; files: a": ["team-without-choice"],
    "judge: judge; files: a": ["team-without-choice"],
    "risky: yes; files: a": ["risky-without-hedge"],
    "team: best-of 2; files: none": ["contradictory-team"],
    "team: best-of 2; agent: human": ["contradictory-team"],
    "team: 2 of claude; agent: codex; files: a": ["contradictory-team"],
    "team: 2 of claude; agent: claude; files: a": [],
}


@each_case("annotations", TEAMS)
def test_a_team_that_cannot_be_is_a_problem(annotations: str) -> None:
    text = f"- [ ] a\n  <!-- {annotations} -->\n"
    assert codes(problems(text)) == TEAMS[annotations]


def test_a_panel_is_refused_as_not_run_yet() -> None:
    (problem,) = problems("- [ ] a\n  <!-- team: panel(a, b); files: a -->\n")
    assert "runs no panel of reviewers yet" in problem.message


def test_files_of_a_manual_step_are_warned_about() -> None:
    text = "- [ ] a\n  <!-- agent: human; files: a -->\n"
    assert codes(problems(text)) == ["manual-files"]


def test_an_agent_that_is_named_does_the_verification_itself() -> None:
    (task,) = tasks("- [ ] Manual verification\n  <!-- agent: codex; files: none -->\n").values()
    assert (task.agent, task.manual) == ("codex", False)


@each_case("value", ["", "none", "None"])
def test_a_task_may_say_that_it_depends_on_nothing(value: str) -> None:
    assert annotated(f"depends: {value}", "files: a").depends == ()


def test_a_task_may_depend_on_a_whole_phase() -> None:
    parsed = reading(
        """
        ## Phase 1: a
        - [ ] a
        ## Phase 2: b
        <!-- depends: -->
        - [ ] b
          <!-- depends: phase1 -->
        """
    )
    assert [each.to for each in parsed.plan.tasks[1].depends_phases] == ["1"]


def test_a_task_cannot_depend_on_its_own_phase() -> None:
    assert wrong("depends: phase1") == ["own-phase"]


def test_two_tasks_cannot_have_one_id() -> None:
    text = "- [ ] a\n  <!-- id: x -->\n- [ ] b\n  <!-- id: x -->\n"
    assert codes(errors(problems(text))) == ["duplicate-id"]
    assert list(tasks(text)) == ["x", "1.2"]


def test_an_id_cannot_be_the_place_of_another_task() -> None:
    text = "- [ ] a\n  <!-- id: 1.2 -->\n- [ ] b\n"
    assert codes(errors(problems(text))) == ["duplicate-id"]
    assert len(tasks(text)) == 2


def test_an_annotation_in_a_sub_bullet_belongs_to_the_task() -> None:
    (task,) = tasks("- [ ] a\n  - [ ] b\n    <!-- files: b -->\n").values()
    assert task.files == ("b",)
