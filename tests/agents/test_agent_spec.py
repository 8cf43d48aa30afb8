from __future__ import annotations

from typing import Any

from cases import each_case
from weft.agents.spec import choose_excerpt, select_sections

SPEC = """# Product
All of it.

## Sessions
Phase 2 is about sessions.

### Tokens
See Task 2.3 and 12.3.

```
# not a heading: src/auth.py
```

### Storage
Lives in src/store/db.py and nowhere else.

## Look
Colours, for task 12.3 and src/auth.pyc.
"""


@each_case(
    ("asked", "headings"),
    [
        ({"task": "2.3"}, ["# Product", "## Sessions", "### Tokens"]),
        ({"task": "12.3"}, ["# Product", "## Look"]),
        ({"task": "9", "phase": "2"}, ["# Product", "## Sessions"]),
        ({"task": "9", "phase_title": "about  Sessions"}, ["# Product", "## Sessions"]),
        ({"task": "9", "files": ("src/store/**",)}, ["# Product", "## Sessions", "### Storage"]),
        ({"task": "9", "files": ("src/auth.py",)}, ["# Product", "## Sessions", "### Tokens"]),
        ({"task": "9", "files": ("**",)}, []),
        ({"task": "3"}, []),
        ({"task": "", "phase": "", "files": ()}, []),
    ],
)
def test_the_sections_that_name_the_task_its_files_or_its_phase_are_chosen(
    asked: dict[str, Any], headings: list[str]
) -> None:
    text = select_sections(SPEC, **asked)
    chosen = [line for line in text.splitlines() if line.startswith("#") and "not a" not in line]
    assert chosen == headings


def test_what_names_the_task_goes_before_what_names_its_phase() -> None:
    spec = "".join(f"## Part {i}\nphase 2 {'x' * 300}\n" for i in range(50))
    spec += "## Own\ntask 2.3 is told here\n"
    text = select_sections(spec, task="2.3", phase="2", limit=2000)
    assert "told here" in text
    assert len(text) < 2200


def test_a_huge_section_is_cut() -> None:
    text = select_sections("## T-7\n" + "x" * 100_000, task="T-7", limit=500)
    assert len(text) < 520
    assert text.endswith("[…]")


LONG = "# Product\n" + "All of it. " * 1000 + "\n## T-7\nIts own.\n"


@each_case(
    ("spec", "task", "excerpt"),
    [
        (SPEC, "9", SPEC.strip()),
        (LONG, "T-7", "# Product\n\n## T-7\n\nIts own."),
        (LONG, "9", f"{LONG[:4000].rstrip()}\n[…]"),
        ("", "9", ""),
    ],
)
def test_a_short_specification_is_read_whole_and_a_long_one_in_part(
    spec: str, task: str, excerpt: str
) -> None:
    assert choose_excerpt(spec, task=task, phase="", phase_title="", files=()) == excerpt


def test_a_specification_that_is_empty_or_strange_says_nothing() -> None:
    for spec in ("", "\ufeff", "#", "####### x", "```\n# T-7", "\0" * 100):
        assert select_sections(spec, task="absent") == ""
