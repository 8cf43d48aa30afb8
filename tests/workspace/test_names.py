from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from weft.workspace.names import archive_ref, branch_ref, component

IDS = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="aA.-/@{}~^: \\*lock%", max_size=12),
    st.text(min_size=100, max_size=400),
)

HOSTILE = [
    *("", ".", "..", "-", "-x", ".x", "x.", "a..b", "x.lock", ".lock", "X.LOCK", "a.lock.lock"),
    *(
        "@",
        "@{",
        "a@{b",
        "a/b",
        "a//b",
        "/",
        "a b",
        "a~b",
        "a^",
        "a:b",
        "a?b",
        "a*b",
        "a[b",
        "a\\b",
    ),
    *("\0", "\n", "\x7f", "é", "e\u0301", "É", "ß", "SS", "%", "%25", "%2e", "1.2", "1.2.lock"),
    *("\udcff", "x" * 300, "x" * 301, "A" * 90, "." * 200, "HEAD", "con", "a.", "a%-b"),
]


def is_valid(refs: list[str]) -> bool:
    return all(
        subprocess.run(["git", "check-ref-format", ref], check=False).returncode == 0
        for ref in refs
    )


def test_hostile_ids_give_valid_distinct_branches() -> None:
    refs = [
        branch_ref(one, other, 1) for one, other in zip(HOSTILE, reversed(HOSTILE), strict=True)
    ]
    assert is_valid(refs)
    assert len({component(one).casefold() for one in HOSTILE}) == len(HOSTILE)


@settings(max_examples=40)
@given(IDS)
def test_any_id_gives_a_valid_branch_and_archive(text: str) -> None:
    branch = branch_ref(text, text, 1)
    assert is_valid([archive_ref(branch, "0" * 40)])
    assert len(component(text)) <= 120
    assert component(text).isascii()


@given(IDS, IDS)
def test_two_ids_never_share_a_name_even_where_case_is_ignored(one: str, other: str) -> None:
    same = component(one).casefold() == component(other).casefold()
    assert same == (one == other)


def test_branches_never_lie_beneath_each_other(tmp_path: Path) -> None:
    refs = [
        branch_ref(run, task, n) for run in ("a", "a/1") for task in ("b", "1/b") for n in (1, 11)
    ]
    assert len(set(refs)) == len(refs)
    assert all(len(ref.split("/")) == 6 for ref in refs)


def test_ordinary_ids_stay_readable() -> None:
    assert branch_ref("run-7", "1.2", 3) == "refs/weft/work/run-7/1.2/3"
    assert branch_ref("run-7", "LOOP-3.a", 1) == "refs/weft/work/run-7/loop-3.a%+f/1"
