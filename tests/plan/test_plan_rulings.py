"""Every ruling of the plan format, by number."""

from __future__ import annotations

from cases import each_case
from plan.planning import (
    codes,
    compiled,
    edges,
    errors,
    needs,
    only,
    order,
    problems,
    reading,
    tasks,
)
from weft import plan
from weft.model import State
from weft.plan.plan_records import EdgeReason
from weft.plan.writeback import Status, write_back

THREE_PHASES = """
    ## Phase 1: Setup
    - [ ] Task 1: a
      <!-- files: a -->
    ## Phase 2: Core
    - [ ] Task 1: b
      <!-- files: b -->
    ## Phase 3: Rest
    {annotation}
    - [ ] Task 1: c
      <!-- files: c -->
"""


def test_ruling_1_a_phase_without_depends_comes_after_all_earlier_ones() -> None:
    result = compiled(THREE_PHASES.format(annotation=""))
    assert order(result) == {("1.1", "2.1"), ("1.1", "3.1"), ("2.1", "3.1")}
    assert edges(result) == edges(result, EdgeReason.PHASE)


def test_ruling_1_a_phase_with_an_empty_depends_may_start_at_once() -> None:
    result = compiled(THREE_PHASES.format(annotation="<!-- depends: -->"))
    assert order(result) == {("1.1", "2.1")}


def test_ruling_1_a_phase_with_a_list_comes_after_those_only() -> None:
    two_free = THREE_PHASES.replace("Core\n", "Core\n    <!-- depends: -->\n")
    result = compiled(two_free.format(annotation="<!-- depends: phase1 -->"))
    assert order(result) == {("1.1", "3.1")}


def test_ruling_1_all_earlier_phases_includes_those_nobody_else_waits_for() -> None:
    result = compiled(
        """
        ## Phase 1: a
        - [ ] a
        ## Phase 2: b
        <!-- depends: -->
        - [ ] b
        ## Phase 3: c
        <!-- depends: phase1 -->
        - [ ] c
        ## Phase 4: d
        - [ ] d
        """
    )
    assert {("1.1", "4.1"), ("2.1", "4.1"), ("3.1", "4.1")} <= order(result)
    assert ("2.1", "3.1") not in order(result)


@each_case(
    "reference",
    ["phase1", "Phase 1", "phase-1", "1", "setup", "Setup", "Phase 1: Setup", '"Setup"'],
)
def test_ruling_1_phases_are_named_by_number_or_heading(reference: str) -> None:
    two_free = THREE_PHASES.replace("Core\n", "Core\n    <!-- depends: -->\n")
    result = compiled(two_free.format(annotation=f"<!-- depends: {reference} -->"))
    assert order(result) == {("1.1", "3.1")}


def test_ruling_1_a_number_is_a_label_first_and_an_ordinal_only_if_no_phase_carries_it() -> None:
    text = """
        ## Phase 2: Second
        - [ ] a
        ## Phase 3: Third
        <!-- depends: -->
        - [ ] b
        ## Phase 4: Fourth
        <!-- depends: phase{number} -->
        - [ ] c
    """
    assert order(compiled(text.format(number=2))) == {("2.1", "4.1")}
    # No phase carries 1, so it means the first phase.
    assert order(compiled(text.format(number=1))) == {("2.1", "4.1")}


def test_ruling_2_a_task_number_means_the_task_of_the_same_phase() -> None:
    result = compiled(
        """
        ## Phase 1: a
        <!-- execution: parallel -->
        - [ ] Task 1: a
          <!-- files: a -->
        - [ ] Task 2: b
          <!-- files: b; depends: task1 -->
        ## Phase 2: b
        <!-- execution: parallel -->
        <!-- depends: -->
        - [ ] Task 1: c
          <!-- files: c -->
        - [ ] Task 2: d
          <!-- files: d; depends: task1 -->
        """
    )
    assert edges(result, EdgeReason.EXPLICIT) == {("1.1", "1.2"), ("2.1", "2.2")}


def test_ruling_2_else_it_means_the_only_task_in_the_plan_with_that_label() -> None:
    result = compiled(
        """
        ## Phase 1: a
        - [ ] Task 7: a
        ## Phase 2: b
        <!-- depends: -->
        - [ ] Task 1: c
          <!-- depends: task7 -->
        """
    )
    assert edges(result, EdgeReason.EXPLICIT) == {("1.7", "2.1")}


def test_ruling_2_else_it_is_an_error_that_names_the_candidates() -> None:
    problem = only(
        problems(
            """
            ## Phase 1: a
            - [ ] Task 7: a
            ## Phase 2: b
            - [ ] Task 7: b
            ## Phase 3: c
            - [ ] Task 1: c
              <!-- depends: task7 -->
            """
        ),
        "ambiguous-task",
    )
    assert "1.7, 2.7" in problem.message
    assert (problem.line, problem.column) == (8, 17)


@each_case(
    "reference", ["phase1/task2", "1.2", "Phase 1/Task 2", "phase1.task2", "1/2", "the-second"]
)
def test_ruling_2_full_references_work_across_phases(reference: str) -> None:
    result = compiled(
        f"""
        ## Phase 1: a
        - [ ] Task 1: a
        - [ ] Task 2: b
          <!-- id: the-second -->
        ## Phase 2: b
        <!-- depends: -->
        - [ ] Task 2: c
          <!-- depends: {reference} -->
        """
    )
    assert edges(result, EdgeReason.EXPLICIT) == {("the-second", "2.2")}


def test_ruling_2_a_task_may_depend_on_a_later_phase_unless_that_makes_a_cycle() -> None:
    text = """
        ## Phase 1: a
        - [ ] Task 1: a
          <!-- files: a; depends: 2.1 -->
        ## Phase 2: b
        {annotation}
        - [ ] Task 1: b
          <!-- files: b -->
    """
    assert ("2.1", "1.1") in order(compiled(text.format(annotation="<!-- depends: -->")))
    assert "cycle" in codes(problems(text.format(annotation="")))


def test_ruling_2_an_unknown_task_is_an_error_with_a_suggestion() -> None:
    problem = only(
        problems("- [ ] a\n  <!-- id: parser -->\n- [ ] b\n  <!-- depends: parsr -->\n"),
        "unknown-task",
    )
    assert (problem.line, problem.column) == (4, 17)
    assert "'parser'" in problem.suggestion


def test_ruling_3_in_a_sequential_phase_each_task_comes_after_the_previous_one() -> None:
    result = compiled("## Phase 1: a\n- [ ] a\n- [ ] b\n- [ ] c\n")
    assert edges(result, EdgeReason.SEQUENTIAL) == {("1.1", "1.2"), ("1.2", "1.3")}


def test_ruling_3_depends_adds_edges_and_removes_none() -> None:
    result = compiled("## Phase 1: a\n- [ ] a\n- [ ] b\n- [ ] c\n  <!-- depends: task1 -->\n")
    assert needs(result) == {("1.1", "1.2"), ("1.2", "1.3"), ("1.1", "1.3")}


def test_ruling_4_a_parallel_phase_implies_no_edges() -> None:
    result = compiled(
        """
        ## Phase 1: a
        <!-- execution: parallel -->
        - [ ] a
          <!-- files: a -->
        - [ ] b
          <!-- files: b -->
        """
    )
    assert edges(result) == set()
    assert result.width == 2


@each_case("execution", ["parallel", "sequential"])
def test_ruling_4_a_task_without_files_claims_the_whole_repository_and_is_warned(
    execution: str,
) -> None:
    text = f"## Phase 1: a\n<!-- execution: {execution} -->\n- [ ] a\n"
    (task,) = tasks(text).values()
    assert task.claims == ("**",)
    assert codes(problems(text)) == ["no-files"]


def test_ruling_4_in_a_parallel_phase_such_a_task_runs_alone() -> None:
    result = compiled(
        """
        ## Phase 1: a
        <!-- execution: parallel -->
        - [ ] a
          <!-- files: a -->
        - [ ] b
        - [ ] c
          <!-- files: c -->
        """
    )
    assert edges(result, EdgeReason.OVERLAP) == {("1.1", "1.2"), ("1.2", "1.3")}


def test_ruling_4_files_none_claims_nothing() -> None:
    text = "## Phase 1: a\n- [ ] a\n  <!-- files: none -->\n"
    (task,) = tasks(text).values()
    assert task.claims == ()
    assert problems(text) == []


def test_ruling_4_a_story_without_files_claims_the_whole_repository_too() -> None:
    text = '{"stories": [{"id": "S-1", "title": "a"}]}'
    assert tasks(text, "prd.json")["S-1"].claims == ("**",)
    assert codes(problems(text, "prd.json")) == ["no-files"]


GROUP = """
    ## Phase 1: a
    <!-- execution: {execution} -->
    - [ ] a
      <!-- files: a; parallel-group: core -->
    - [ ] b
      <!-- files: {file}; parallel-group: core -->
    - [ ] c
      <!-- files: c; parallel-group: other -->
    - [ ] d
      <!-- files: d; parallel-group: other -->
"""


def test_ruling_5_the_tasks_of_a_group_are_admitted_together_and_groups_have_no_order() -> None:
    result = compiled(GROUP.format(execution="parallel", file="b"))
    assert result.groups == (("1.1", "1.2"), ("1.3", "1.4"))
    assert edges(result) == set()


def test_ruling_5_a_group_with_an_overlap_inside_is_a_warning_and_its_tasks_are_ordinary() -> None:
    text = GROUP.format(execution="parallel", file="a")
    result = compiled(text)
    assert result.groups == (("1.3", "1.4"),)
    assert "may change the same file, a" in only(result.problems, "group-overlap").message


def test_ruling_5_a_group_with_an_edge_inside_is_a_warning_and_its_tasks_are_ordinary() -> None:
    result = compiled(GROUP.format(execution="sequential", file="b"))
    assert result.groups == ()
    assert codes(result.problems) == ["group-ordered", "group-ordered"]


def test_ruling_5_a_way_round_through_another_task_counts_as_an_edge() -> None:
    result = compiled(
        """
        ## Phase 1: a
        <!-- execution: parallel -->
        - [ ] a
          <!-- files: a; parallel-group: core -->
        - [ ] b
          <!-- files: b; depends: task1 -->
        - [ ] c
          <!-- files: c; depends: task2; parallel-group: core -->
        """
    )
    assert codes(result.problems) == ["group-ordered"]


def test_ruling_5_a_group_larger_than_capacity_is_a_warning() -> None:
    parsed = reading(GROUP.format(execution="parallel", file="b"))
    assert plan.compile(parsed.plan, capacity=2).groups == (("1.1", "1.2"), ("1.3", "1.4"))
    result = plan.compile(parsed.plan, capacity=1)
    assert result.groups == ()
    assert codes(result.problems) == ["group-too-large", "group-too-large"]


def test_ruling_6_files_are_normalised_and_new_ones_may_be_named() -> None:
    (task,) = tasks(
        '- [ ] a\n  <!-- files: ./src//a.ts, "a,b.ts", docs/, src/**/*.ts, new[ab].md -->\n'
    ).values()
    assert task.files == ("src/a.ts", "a,b.ts", "docs/**", "src/**/*.ts", "new[ab].md")


@each_case("path", ["/etc/passwd", "../up", "a/../../b", ".git/config", "a\x00b"])
def test_ruling_6_paths_that_lead_elsewhere_are_errors(path: str) -> None:
    problem = only(problems(f"- [ ] a\n  <!-- files: ok.ts, {path} -->\n"), "bad-path")
    assert (problem.line, problem.column) == (2, 22)


def test_ruling_6_case_is_as_git_has_it() -> None:
    result = compiled(
        """
        ## Phase 1: a
        <!-- execution: parallel -->
        - [ ] a
          <!-- files: README.md -->
        - [ ] b
          <!-- files: readme.md -->
        """
    )
    assert edges(result) == set()


OVERLAP = """
    ## Phase 1: a
    <!-- execution: parallel -->
    - [ ] a
      <!-- files: {0} -->
    - [ ] b
      <!-- files: {1} -->
    - [ ] c
      <!-- files: {2} -->
"""


def test_ruling_7_overlap_is_order_chained_per_file_and_never_pairwise() -> None:
    result = compiled(OVERLAP.format("a", "a", "a"))
    assert edges(result, EdgeReason.OVERLAP) == {("1.1", "1.2"), ("1.2", "1.3")}
    assert needs(result) == set()


def test_ruling_7_globs_are_intersected_not_compared() -> None:
    result = compiled(OVERLAP.format("src/**", "lib/a.py", "**/*.py"))
    assert edges(result) == {("1.1", "1.3"), ("1.2", "1.3")}


def test_ruling_7_the_pair_and_the_file_are_printed() -> None:
    problem = only(problems(OVERLAP.format("a", "x", "a")), "overlap")
    assert "1.1 (line 4) and 1.3 may both change a" in problem.message
    assert problem.line == 8


@each_case(
    ("first", "third", "turns"),
    [
        ("a", "a", "1.1 goes first"),
        ("a", "a; priority: high", "1.3 goes first"),
        ("a; class: batch", "a", "1.3 goes first"),
        ("a", "a; depends: task2", "1.1 goes first"),
        ("a; depends: task2", "a", "the task that is ready first goes first"),
        ("a; class: batch", "a; priority: low", "the task that is ready first goes first"),
    ],
)
def test_ruling_7_the_warning_says_who_goes_first_where_it_is_sure(
    first: str, third: str, turns: str
) -> None:
    problem = only(problems(OVERLAP.format(first, "x", third)), "overlap")
    assert problem.message.endswith(f"they never run at the same time, and {turns}.")


def test_ruling_7_an_order_that_the_plan_gives_stands() -> None:
    result = compiled(OVERLAP.format("a", "x", "a; depends: task1"))
    assert edges(result) == edges(result, EdgeReason.EXPLICIT) == {("1.1", "1.3")}


def test_ruling_7_an_order_against_the_plan_stands_too() -> None:
    result = compiled(OVERLAP.format("a; depends: task3", "x", "a"))
    assert edges(result) == {("1.3", "1.1")}


def test_ruling_7_overlaps_are_found_across_phases() -> None:
    result = compiled(
        """
        ## Phase 1: a
        - [ ] a
          <!-- files: a -->
        ## Phase 2: b
        <!-- depends: -->
        - [ ] b
          <!-- files: a -->
        """
    )
    assert edges(result) == edges(result, EdgeReason.OVERLAP) == {("1.1", "2.1")}


def test_ruling_7_what_is_done_overlaps_with_nothing() -> None:
    assert edges(compiled(OVERLAP.format("a", "x", "a").replace("[ ] a", "[x] a"))) == set()


def test_ruling_8_a_cycle_is_an_error_that_prints_all_of_it_with_line_numbers() -> None:
    problem = only(
        problems(
            """
            ## Phase 1: a
            <!-- execution: parallel -->
            - [ ] a
              <!-- files: a; depends: task3 -->
            - [ ] b
              <!-- files: b; depends: task1 -->
            - [ ] c
              <!-- files: c; depends: task2 -->
            """
        ),
        "cycle",
    )
    assert "1.1 (line 4) → 1.2 (line 6) → 1.3 (line 8) → 1.1 (line 4)" in problem.message
    assert problem.severity == "error"


def test_ruling_8_every_cycle_is_reported() -> None:
    reported = problems(
        """
        ## Phase 1: a
        <!-- execution: parallel -->
        - [ ] a
          <!-- files: a; depends: task2 -->
        - [ ] b
          <!-- files: b; depends: task1 -->
        - [ ] c
          <!-- files: c; depends: task3 -->
        """
    )
    assert codes(errors(reported)) == ["cycle", "cycle"]


def test_ruling_8_phases_can_make_a_cycle() -> None:
    problem = only(
        problems(
            """
            ## Phase 1: a
            <!-- depends: phase2 -->
            - [ ] a
            ## Phase 2: b
            - [ ] b
            """
        ),
        "cycle",
    )
    assert "1.1 (line 4) → 2.1 (line 6) → 1.1 (line 4)" in problem.message


def test_ruling_8_a_phase_that_depends_on_itself_is_said_to() -> None:
    reported = problems("## Phase 1: a\n<!-- depends: phase1 -->\n- [-] a\n")
    assert codes(reported) == ["own-phase"]


MANUAL = "User Manual Verification 'Setup' (Protocol in workflow.md)"


@each_case(
    "text",
    [
        f"Task: {MANUAL}",
        "Task 2: Phase 2 Verification (manual verification per workflow.md)",
        "Task 2: Ask the owner <!-- agent: human -->",
    ],
)
def test_ruling_9_a_manual_step_waits_for_a_person_and_claims_no_files(text: str) -> None:
    parsed = reading(f"## Phase 1: a\n- [ ] {text}\n")
    (task,) = parsed.plan.tasks
    assert (task.agent, task.claims, parsed.problems) == ("human", (), ())


def test_ruling_9_in_a_sequential_phase_it_keeps_its_place() -> None:
    result = compiled(f"## Phase 1: a\n- [ ] a\n- [ ] {MANUAL}\n- [ ] c\n")
    assert needs(result) == {("1.1", "1.2"), ("1.2", "1.3")}


def test_ruling_9_in_a_parallel_phase_it_comes_after_all_that_does_not_depend_on_it() -> None:
    result = compiled(
        f"""
        ## Phase 1: a
        <!-- execution: parallel -->
        - [ ] Task 1: a
          <!-- files: a -->
        - [ ] Task 2: {MANUAL}
        - [ ] Task 3: c
          <!-- files: c -->
        - [ ] Task 4: d
          <!-- files: d; depends: task2 -->
        """
    )
    assert edges(result, EdgeReason.MANUAL) == {("1.1", "1.2"), ("1.3", "1.2")}
    assert order(result) >= {("1.1", "1.4"), ("1.3", "1.4"), ("1.2", "1.4")}


def test_ruling_9_manual_steps_follow_each_other_in_plan_order() -> None:
    result = compiled(
        f"""
        ## Phase 1: a
        <!-- execution: parallel -->
        - [ ] Task 1: {MANUAL}
        - [ ] Task 2: {MANUAL}
        - [ ] Task 3: c
          <!-- files: c; depends: task1 -->
        - [ ] Task 4: d
          <!-- files: d -->
        """
    )
    assert order(result) == {
        ("1.1", "1.2"),
        ("1.1", "1.3"),
        ("1.3", "1.2"),
        ("1.4", "1.1"),
        ("1.4", "1.2"),
        ("1.4", "1.3"),
    }


def test_ruling_9_dependence_on_a_manual_step_counts_through_other_phases_too() -> None:
    result = compiled(
        f"""
        ## Phase 1: a
        <!-- execution: parallel -->
        - [ ] Task 1: {MANUAL}
        - [ ] Task 2: b
          <!-- files: b; depends: 2.1 -->
        ## Phase 2: b
        <!-- depends: -->
        - [ ] Task 1: c
          <!-- files: c; depends: 1.1 -->
        """
    )
    assert order(result) == {("1.1", "2.1"), ("1.1", "1.2"), ("2.1", "1.2")}


def test_ruling_10_writing_back_changes_mark_commit_note_and_checkpoint_only() -> None:
    before = (
        b"# T\r\n## Phase 1: a\r\n- [ ] Task 1: a\r\n  <!-- files: a -->\r\n"
        b"## Phase 2: b\r\n* [~]  Task 1: b  \r\n"
    )
    parsed = plan.read("plan.md", before).plan
    statuses = {
        "1.1": Status(state=State.DONE, commit="9f8e7d6"),
        "2.1": Status(state=State.BLOCKED, note="no key"),
    }
    assert write_back(before, parsed, statuses, trunk="1a2b3c4").data == (
        b"# T\r\n## Phase 1: a [checkpoint: 1a2b3c4]\r\n- [x] Task 1: a 9f8e7d6\r\n"
        b"  <!-- files: a -->\r\n## Phase 2: b\r\n* [!]  Task 1: b [BLOCKED: no key]  \r\n"
    )


def test_ruling_10_a_task_that_is_gone_is_reported_and_never_put_back() -> None:
    parsed = plan.read("plan.md", b"## Phase 1: a\n- [ ] Task 1: a\n- [ ] Task 2: b\n").plan
    edited = b"## Phase 1: a\n- [ ] Task 2: b\n"
    statuses = {id: Status(state=State.DONE) for id in ("1.1", "1.2")}
    written = write_back(edited, parsed, statuses)
    assert written.data == b"## Phase 1: a\n- [x] Task 2: b\n"
    assert [task.id for task in written.gone] == ["1.1"]


def test_ruling_11_a_task_without_a_number_takes_its_ordinal_or_the_next_free_number() -> None:
    parsed = reading(
        """
        ## Phase 1: a
        - [ ] Task 2: carries two
        - [ ] its ordinal is carried
        - [ ] its ordinal is free
        """
    ).plan.tasks
    assert [task.id for task in parsed] == ["1.2", "1.4", "1.3"]


def test_ruling_11_the_same_number_twice_is_a_warning_and_a_reference_to_it_an_error() -> None:
    text = """
        ## Phase 1: a
        - [ ] Task 1: a
        - [ ] Task 1: b
        - [ ] Task 2: c
          <!-- depends: {reference} -->
    """
    parsed = reading(text.format(reference="1.3"))
    assert [task.id for task in parsed.plan.tasks] == ["1.1", "1.3", "1.2"]
    assert only(parsed.problems, "repeated-number").line == 4
    assert errors(parsed.problems) == []
    assert codes(errors(problems(text.format(reference="task1")))) == ["ambiguous-task"]
    assert codes(errors(problems(text.format(reference="1.1")))) == ["ambiguous-task"]


def test_ruling_11_phases_are_labelled_by_the_same_rule() -> None:
    parsed = reading(
        """
        ## Phase 2: a
        - [ ] a
        ## Anything
        - [ ] b
        ## Phase 2: c
        - [ ] c
        ## Phase 3: d
        <!-- depends: phase2 -->
        - [ ] d
        """
    )
    assert [phase.label for phase in parsed.plan.phases] == ["2", "4", "5", "3"]
    assert codes(errors(parsed.problems)) == ["ambiguous-phase"]


def test_ruling_11_a_heading_with_no_task_under_it_is_prose() -> None:
    parsed = reading("## Overview\ntext\n## Phase 1: a\n- [ ] a\n## Notes\n- nothing\n")
    assert [phase.title for phase in parsed.plan.phases] == ["a"]
    assert [task.id for task in parsed.plan.tasks] == ["1.1"]


def test_ruling_11_ids_are_phase_and_task_or_what_the_author_chose() -> None:
    by_id = tasks("## Phase 2: a\n- [ ] Task 3: a\n- [ ] Task 4: b\n  <!-- id: b -->\n")
    assert list(by_id) == ["2.3", "b"]
