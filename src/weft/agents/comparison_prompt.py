"""The prompt of a judge that compares two candidates of a team. Pure.

It names no entrant and no agent, and the judge gets it a second time with the candidates in the
other order: an answer that depends on the order counts as a tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

HEAD: Final = """\
Two candidates were made for the task below, each by itself and from the same base. Both pass all
checks. Decide which of them should land: it does all that the task asks, it is correct, and it is
the simpler of the two. The order in which you see them means nothing. Change no file."""

FORM: Final = """End your answer with a JSON object of this form, and nothing behind it:

    {"better": NUMBER, "why": "a sentence"}

NUMBER is 1 or 2; write "equal" instead if neither is better."""


def write_comparison(task: str, criteria: str, diffs: Sequence[str]) -> str:
    """Write the prompt; `task`, `criteria` and `diffs` are ready to be shown."""
    parts = [HEAD, f"## The task\n\n{task}"]
    if criteria:
        parts.append(f"## Acceptance criteria\n\n{criteria}")
    parts += [f"## Candidate {number}\n\n{diff}" for number, diff in enumerate(diffs, 1)]
    return "\n\n".join([*parts, f"## Your answer\n\n{FORM}"]) + "\n"
