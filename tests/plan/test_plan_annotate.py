"""Proposed annotations, and their place in the file."""

from __future__ import annotations

import textwrap

from cases import each_case
from plan.planning import compiled, edges, waves
from weft import plan
from weft.plan.annotator import Advice, annotate, annotate_json
from weft.plan.mentions import Repository, find_files, find_references, find_tasks
from weft.plan.plan_records import EdgeReason

TRACK = """
    # Accounts

    ## Phase 1: Setup
    - [ ] Task 1: Create `src/auth.ts` and src/auth.test.ts
    - [ ] Task 2: Create the config module (src/config.ts)
      - [ ] read from the environment
    - [ ] Task 3: Create `src/utils.ts`
      - [ ] it uses what Task 1 made

    ## Phase 2: Rest
    - [ ] Task 1: Think about it
    - [ ] Task 2: Change `src/app.ts`
"""


def advice(text: str, repository: list[str] | None = None) -> Advice:
    return annotate("plan.md", textwrap.dedent(text).encode(), repository)


def test_a_phase_whose_files_are_known_and_different_can_run_in_parallel() -> None:
    first, second = advice(TRACK).phases
    assert first.parallel
    assert first.reason == "1.1, 1.2 and 1.3 change different files."
    assert [task.files for task in first.tasks] == [
        ("src/auth.ts", "src/auth.test.ts"),
        ("src/config.ts",),
        ("src/utils.ts",),
    ]
    assert [task.depends for task in first.tasks] == [(), (), ("task1",)]
    assert not second.parallel
    assert second.reason == "The files of 2.1 are not known."


def test_the_annotations_are_put_into_the_file() -> None:
    assert advice(TRACK).data.decode() == textwrap.dedent(
        """
        # Accounts

        ## Phase 1: Setup
        <!-- execution: parallel -->
        - [ ] Task 1: Create `src/auth.ts` and src/auth.test.ts
          <!-- files: src/auth.ts, src/auth.test.ts -->
        - [ ] Task 2: Create the config module (src/config.ts)
          <!-- files: src/config.ts -->
          - [ ] read from the environment
        - [ ] Task 3: Create `src/utils.ts`
          <!-- files: src/utils.ts -->
          <!-- depends: task1 -->
          - [ ] it uses what Task 1 made

        ## Phase 2: Rest
        - [ ] Task 1: Think about it
        - [ ] Task 2: Change `src/app.ts`
          <!-- files: src/app.ts -->
        """
    )


def test_the_annotated_file_means_what_was_said() -> None:
    result = compiled(advice(TRACK).data.decode())
    assert waves(result) == [["1.1", "1.2"], ["1.3"], ["2.1"], ["2.2"]]


def test_a_plan_that_is_annotated_is_left_alone() -> None:
    once = advice(TRACK).data
    again = annotate("plan.md", once)
    assert again.left_alone
    assert (again.data, again.phases) == (once, ())


@each_case(
    "annotation",
    ["files: a", "files: none", "depends: task1", "parallel-group: x", "execution: sequential"],
)
def test_one_annotation_is_enough_to_leave_it_alone(annotation: str) -> None:
    text = TRACK.replace("## Phase 1: Setup", f"## Phase 1: Setup\n    <!-- {annotation} -->")
    if "execution" not in annotation:
        text = TRACK.replace("config.ts)", f"config.ts) <!-- {annotation} -->")
    assert advice(text).left_alone


def test_tasks_that_change_the_same_file_stay_in_order() -> None:
    (phase,) = advice("## P\n- [ ] Change src/a.ts\n- [ ] Change src/a.ts again\n").phases
    assert not phase.parallel
    assert phase.reason == "Its tasks change the same files or need each other."


def test_tasks_that_put_others_together_come_after_them() -> None:
    proposed = advice(
        "## P\n- [ ] Make src/a.ts\n- [ ] Make src/b.ts\n- [ ] Integrate both in src/c.ts\n"
    )
    result = compiled(proposed.data.decode())
    assert edges(result) == edges(result, EdgeReason.EXPLICIT) == {("1.1", "1.3"), ("1.2", "1.3")}


def test_a_manual_step_needs_no_files() -> None:
    (phase,) = advice(
        "## P\n- [ ] Make src/a.ts\n- [ ] Make src/b.ts\n- [ ] Manual verification of Task 1\n"
    ).phases
    assert phase.parallel
    assert phase.tasks[2].files == phase.tasks[2].depends == ()


def test_line_ends_are_kept_and_the_last_line_stays_open() -> None:
    proposed = annotate("plan.md", b"## P\r\n1. [ ] src/a.ts\r\n2. [ ] src/b.ts")
    assert proposed.data == (
        b"## P\r\n<!-- execution: parallel -->\r\n1. [ ] src/a.ts\r\n   <!-- files: src/a.ts -->"
        b"\r\n2. [ ] src/b.ts\r\n   <!-- files: src/b.ts -->"
    )


@each_case(
    ("texts", "needs"),
    [
        (["src/a.ts", "src/b.ts", "src/c.ts, depends on Task 1"], [("1.1", "1.3")]),
        (["src/a.ts (depends on 3)", "src/b.ts", "src/c.ts"], [("1.3", "1.1")]),
        (["src/a.ts after Task 2 and 3", "src/b.ts", "src/c.ts"], [("1.2", "1.1"), ("1.3", "1.1")]),
        (["src/a.ts", "src/b.ts", "src/c.ts once 1.2 is done"], [("1.2", "1.3")]),
        (["src/a.ts", "src/b.ts", "src/c.ts after the previous task"], [("1.2", "1.3")]),
        (["src/a.ts", "src/b.ts", "src/c.ts after the above"], [("1.1", "1.3"), ("1.2", "1.3")]),
        (["src/a.ts", "src/b.ts", "src/c.ts: retry after 2 seconds"], []),
        (
            ["[P] src/a.ts", "[P] src/b.ts", "src/c.ts", "[P] src/d.ts"],
            [("1.1", "1.3"), ("1.2", "1.3"), ("1.3", "1.4")],
        ),
    ],
)
def test_the_order_that_the_text_states_is_kept(
    texts: list[str], needs: list[tuple[str, str]]
) -> None:
    proposed = advice("## P\n" + "".join(f"- [ ] Write {text}\n" for text in texts))
    assert [phase.parallel for phase in proposed.phases] == [True]
    result = compiled(proposed.data.decode())
    assert edges(result) == edges(result, EdgeReason.EXPLICIT) == set(needs)


@each_case(
    ("texts", "reason"),
    [
        (["src/a.ts", "src/b.ts, depends on the parser"], "1.2 says 'depends on the parser'"),
        (["src/a.ts after Task 2", "src/b.ts after Task 1"], "need each other in a circle"),
        (["src/a.ts", "src/b.ts after Task 1"], "change the same files or need each other"),
    ],
)
def test_a_phase_stays_sequential_where_parallel_work_would_not_help(
    texts: list[str], reason: str
) -> None:
    (phase,) = advice("## P\n" + "".join(f"- [ ] Write {text}\n" for text in texts)).phases
    assert not phase.parallel
    assert reason in phase.reason


@each_case(
    ("text", "files", "reads"),
    [
        ("Change src/a.py. Do not touch src/b.py", ["src/a.py"], []),
        ("Don't change src/a.py, src/b.py or src/c.py; edit src/d.py", ["src/d.py"], []),
        ("Leave src/a.py alone and edit src/b.py", ["src/b.py"], []),
        ("src/a.py must not change; update src/b.py", ["src/b.py"], []),
        ("Without changing src/a.py, add src/b.py", ["src/b.py"], []),
        ("Update src/a.py instead of src/b.py", ["src/a.py"], []),
        ("Change src/a.py, see docs/b.md", ["src/a.py"], ["docs/b.md"]),
        (
            "Add `src/a.py` (see `docs/a.md`) and `src/b.py`",
            ["src/a.py", "src/b.py"],
            ["docs/a.md"],
        ),
        ("Add a parser to src/a.py like in src/b.py", ["src/a.py"], ["src/b.py"]),
        ("Follow docs/style.md. Write src/a.py", ["src/a.py"], ["docs/style.md"]),
        ("See src/a.py, and change src/a.py", ["src/a.py"], []),
        ("Move code from src/a.py to src/b.py", ["src/a.py", "src/b.py"], []),
        ("Work on src/a.py", ["src/a.py"], []),
    ],
)
def test_files_that_a_text_forbids_or_refers_to_are_not_claimed(
    text: str, files: list[str], reads: list[str]
) -> None:
    assert list(find_files(text, Repository(None))) == files
    assert list(find_references(text, Repository(None))) == reads


def test_files_to_read_are_annotated_and_claim_nothing() -> None:
    proposed = advice("## P\n- [ ] Write src/a.ts, see docs/a.md\n- [ ] Write src/b.ts\n")
    assert b"  <!-- files: src/a.ts -->\n  <!-- reads: docs/a.md -->\n" in proposed.data
    first, second = compiled(proposed.data.decode()).plan.tasks
    assert (first.claims, first.reads, second.claims) == (
        ("src/a.ts",),
        ("docs/a.md",),
        ("src/b.ts",),
    )


STORIES = """{"stories": [
  {"id": "S-1", "title": "Write src/a.ts"},
  {"id": "S-2", "title": "Write src/b.ts after S-1", "dependsOn": [ ]},
  {"id": "S-3", "title": "Think, depends on luck", "description": "in src/c.ts"},
  {"id": "S-4", "title": "Write src/d.ts", "files": ["src/own.ts"]},
  {"id": "S-5", "title": "Write src/e.ts", "passes": true}
]}"""
MASTER = """{"tasks": [
  {"id": 1, "title": "Write src/a.ts"},
  {"id": 2, "title": "Write src/b.ts, depends on 1", "metadata": {"sprint": 4}, "dependencies": []},
  {"id": 3, "title": "All", "subtasks": [
    {"id": 1, "title": "Write src/c.ts"}, {"id": 2, "title": "Write src/d.ts after task 1"}]}
]}"""


@each_case(
    ("name", "before", "changes"),
    [
        (
            "prd.json",
            STORIES,
            [
                ('"Write src/a.ts"', '"Write src/a.ts", "files": ["src/a.ts"]'),
                ('"dependsOn": [ ]', '"dependsOn": ["S-1"], "files": ["src/b.ts"]'),
            ],
        ),
        (
            "tasks.json",
            MASTER,
            [
                ('"Write src/a.ts"', '"Write src/a.ts", "metadata": {"files": ["src/a.ts"]}'),
                ('"sprint": 4', '"sprint": 4, "files": ["src/b.ts"]'),
                ('"dependencies": []', '"dependencies": ["1"]'),
                ('"Write src/c.ts"', '"Write src/c.ts", "metadata": {"files": ["src/c.ts"]}'),
                (
                    '"Write src/d.ts after task 1"',
                    '"Write src/d.ts after task 1", "dependencies": ["3.1"], '
                    '"metadata": {"files": ["src/d.ts"]}',
                ),
            ],
        ),
    ],
)
def test_the_stories_of_a_json_plan_get_their_files_and_their_order(
    name: str, before: str, changes: list[tuple[str, str]]
) -> None:
    after = before
    for old, new in changes:
        assert before.count(old) == 1
        after = after.replace(old, new)
    proposed = annotate_json(plan.read(name, before.encode()).plan, before.encode())
    assert proposed.data.decode() == after
    again = plan.read(name, proposed.data)
    assert not [each for each in again.problems if each.severity is plan.Severity.ERROR]
    assert annotate_json(again.plan, proposed.data).data == proposed.data


def test_stories_that_need_each_other_stay_sequential() -> None:
    data = b'[{"id": "A", "title": "Write src/a.ts"}, {"id": "B", "title": "src/b.ts after A"}]'
    [phase] = annotate_json(plan.read("prd.json", data).plan, data).phases
    assert not phase.parallel
    assert phase.reason.endswith("They need each other.")
    data = data.replace(b"after A", b"after a while")
    [phase] = annotate_json(plan.read("prd.json", data).plan, data).phases
    assert phase.parallel


def test_a_json_plan_whose_work_names_files_is_left_alone() -> None:
    data = b'[{"id": "S-1", "title": "Write src/a.ts", "files": ["x"]}]'
    assert annotate_json(plan.read("prd.json", data).plan, data).left_alone


REPOSITORY = ["src/app.py", "src/util/names.py", "README.md", "web/app.py", "docs/a.md"]


@each_case(
    ("text", "repository", "files"),
    [
        ("Change src/app.py.", None, ("src/app.py",)),
        ("Change `src/**/*.ts`", None, ("src/**/*.ts",)),
        ("Change `setup.py` and `Makefile`", None, ("setup.py", "Makefile")),
        ("Change setup.py", None, ()),
        ("Read https://example.com/a/b.html", None, ()),
        ("Read example.com/a/b.html", None, ()),
        ("Use Node.js and/or `Vue.js`, v1.2/1.3", None, ()),
        ("Leave ../x.py and /etc/x.conf", None, ()),
        ("Change names.py", REPOSITORY, ("src/util/names.py",)),
        ("Change README.md", REPOSITORY, ("README.md",)),
        ("Change app.py", REPOSITORY, ()),  # there are two
        ("Tidy src/util", REPOSITORY, ("src/util/",)),
        ("Add src/new.py", REPOSITORY, ("src/new.py",)),
        ("Add `new.py`", REPOSITORY, ()),
        ("Tidy the docs", REPOSITORY, ()),
        ("./src/app.py", REPOSITORY, ("src/app.py",)),
    ],
)
def test_files_are_known_from_the_text_or_the_repository(
    text: str, repository: list[str] | None, files: tuple[str, ...]
) -> None:
    assert find_files(text, Repository(repository)) == files


@each_case(
    ("text", "numbers"),
    [
        ("after Task 1", ("1",)),
        ("needs tasks 1, 2 and 3", ("1", "2", "3")),
        ("see task 12b", ("12B",)),
        ("a task list", ()),
        ("Task 1.2", ()),
    ],
)
def test_tasks_are_known_by_their_numbers(text: str, numbers: tuple[str, ...]) -> None:
    assert find_tasks(text) == numbers


def test_what_cannot_be_read_is_left_alone() -> None:
    assert annotate("plan.md", b"x" * 5_000_000).left_alone
    assert plan.read("plan.md", annotate("plan.md", b"").data).plan.tasks == ()


def test_a_task_whose_text_names_no_file_gets_its_predicted_files_marked_so() -> None:
    text = "## Phase 1: P\n- [ ] Task 1: Let the parser accept it\n- [ ] Task 2: Change `b.py`\n"
    predicted = {"1.1": ("src/parser.py",), "1.2": ("src/other.py",)}
    proposed = annotate("plan.md", text.encode(), None, predicted)
    [phase] = proposed.phases
    assert phase.parallel
    assert [(task.files, task.predicted) for task in phase.tasks] == [
        (("src/parser.py",), True),
        (("b.py",), False),
    ]
    assert b"<!-- files: src/parser.py -->" in proposed.data
