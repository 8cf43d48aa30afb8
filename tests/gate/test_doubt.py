"""Doubt in the base: a table of failed checks."""

from __future__ import annotations

from cases import each_case
from weft.gate.policy.doubt import UNABLE, FailedCheck, explain_doubt

DATABASE = "connection refused: the database is not there\nIt ended with 1."


def failed(entry: str, *files: str, output: str = DATABASE, unable: bool = False) -> FailedCheck:
    return FailedCheck(entry=entry, files=files, output=output, unable=unable)


def test_a_missing_program_is_a_doubt_by_itself() -> None:
    assert explain_doubt(failed("a", "a.py", unable=True), []) == UNABLE


def test_the_same_failure_of_two_tasks_that_share_no_file_is_a_doubt() -> None:
    assert "share no file" in explain_doubt(failed("a", "a.py"), [failed("b", "b.py")])


@each_case(
    "earlier",
    [
        [],
        [failed("a", "b.py")],  # an earlier attempt of the same task
        [failed("b", "a.py")],
        [failed("b", "*.py")],
        [failed("b", "b.py", "a.py")],
        [failed("b", "b.py", output="assert 1 == 2\nIt ended with 1.")],
    ],
)
def test_a_failure_that_the_task_may_have_caused_is_no_doubt(earlier: list[FailedCheck]) -> None:
    assert explain_doubt(failed("a", "a.py"), earlier) == ""


def test_an_exit_code_alone_is_no_common_cause() -> None:
    bare = "It ended with 1."
    assert explain_doubt(failed("a", "a.py", output=bare), [failed("b", "b", output=bare)]) == ""
