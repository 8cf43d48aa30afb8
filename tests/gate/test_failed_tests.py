"""The names of failed tests in the output of pytest and unittest."""

from __future__ import annotations

from cases import each_case
from weft.gate.policy.failed_tests import are_known, find_failed_tests

LINE = "=" * 70
PYTEST = """\
=========================== short test summary info ============================
FAILED tests/test_a.py::test_x - assert 1 == 2
FAILED tests/test_a.py::test_y[a - b] - AssertionError: no - really
ERROR tests/test_b.py::test_z - RuntimeError
==================== 2 failed, 3 passed, 1 error in 0.12s ======================
It ended with 1."""
UNITTEST = f"""\
F.E
{LINE}
ERROR: test_b (test_a.T.test_b)
{"-" * 70}
Traceback
{LINE}
FAIL: test_a (test_a.T.test_a)
{"-" * 70}
Ran 3 tests in 0.001s

FAILED (failures=1, errors=1, skipped=2)
It ended with 1."""

SECTIONS = """\
==================================== ERRORS ====================================
_________________________ ERROR at setup of test_z _____________________________
    def bad():
>       raise RuntimeError
tests/test_b.py:11: RuntimeError
=================================== FAILURES ===================================
_________________________________ C.test_x _____________________________________
tests/test_a.py:5: in test_x
    helper()
lib/help.py:7: in helper
E   ValueError: x
______________________________ test_y[a.b c] ___________________________________
tests/test_a.py:9: in test_y
E   assert 0
==================== 2 failed, 3 passed, 1 error in 0.12s ======================"""


@each_case(
    ("output", "names"),
    [
        (
            PYTEST,
            {
                "FAILED tests/test_a.py::test_x",
                "FAILED tests/test_a.py::test_y[a - b]",
                "ERROR tests/test_b.py::test_z",
            },
        ),
        (
            "\x1b[31mFAILED\x1b[0m t.py::\x1b[1mtest_a\x1b[0m\n\x1b[31m1 failed\x1b[0m in 0.1s\n",
            {"FAILED t.py::test_a"},
        ),
        (
            "FAILED t.py::C::test_a\n1 failed, 20 passed in 75.10s (0:01:15)\n",
            {"FAILED t.py::C::test_a"},
        ),
        (
            "t.py::test_a[x y] FAILED [ 50%]\nt.py::test_b ERROR\nt.py::test_c PASSED [ 9%]\n"
            "[gw0] [ 60%] FAILED t.py::C::test_d \n== 2 failed, 1 passed, 1 error in 0.12s ==\n",
            {"FAILED t.py::test_a[x y]", "ERROR t.py::test_b", "FAILED t.py::C::test_d"},
        ),
        (
            SECTIONS,
            {
                "FAILED tests/test_a.py::C::test_x",
                "FAILED tests/test_a.py::test_y[a.b c]",
                "ERROR tests/test_b.py::test_z",
            },
        ),
        (UNITTEST, {"ERROR: test_b (test_a.T.test_b)", "FAIL: test_a (test_a.T.test_a)"}),
    ],
)
def test_the_names_are_read(output: str, names: set[str]) -> None:
    assert find_failed_tests(output).names == names
    assert not find_failed_tests(output).fault


@each_case(
    ("output", "fault"),
    [
        ("--- FAIL: TestA (0.00s)\nFAIL\nexit status 1", "no summary"),
        ("", "no summary"),
        ("2 failed, 3 passed in 0.12s", "names 0 of 2"),
        ("FAILED t.py::test_a\n2 failed in 0.12s", "names 1 of 2"),
        ("/w/t.py:3: assert 0\n1 failed in 0.12s", "names 0 of 1"),
        ("FAILED t.py::b\nt.py::c FAILED\nFAILED t.py::a\n1 failed in 1.0s", "names 2 of 1"),
        ("5 passed in 0.12s\nsrc/a.py:1:1: F401\n", "names 0 of 0"),
        ("FAILED t.py::test_a\n!!! stopping after 1 failures !!!\n1 failed in 1.0s", "stopped"),
        ("ERROR t.py\n!!! Interrupted: 1 error during collection !!!\n1 error in 1.0s", "stopped"),
        ("FAILED (unexpected successes=1)\n", "expected to fail"),
        (PYTEST + "\n" + UNITTEST, "more than one"),
    ],
)
def test_incomplete_names_count_for_nothing(output: str, fault: str) -> None:
    failed = find_failed_tests(output)
    assert fault in failed.fault
    assert not are_known(failed, {"FAILED t.py::test_a"})


def test_only_known_failures_are_known() -> None:
    failed = find_failed_tests("FAILED t.py::test_a\n1 failed in 0.1s")
    assert are_known(failed, ["FAILED t.py::test_a", "FAILED t.py::test_b"])
    assert not are_known(failed, ["ERROR t.py::test_a"])
