"""The answers of agents to the comments of a review: a fenced block at the end of their text.

```weft-review
7 handled: renamed as you asked
8 answered: the old name is part of the public API
```
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from weft.candidate_records import ReviewComment
from weft.model import CommentAnswer

LANGUAGE: Final = "weft-review"
_LONGEST: Final = 200_000
_BLOCK = re.compile(rf"^```{LANGUAGE}[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"[-*]?[ \t]*#?([0-9]{1,18})[ \t]+(handled|answered)[ \t]*:?[ \t]*(.*)")


def read_answers(text: str) -> tuple[CommentAnswer, ...]:
    """Return the answers in the last block of a text; lines of another form are ignored."""
    blocks = _BLOCK.findall(text[-_LONGEST:])
    lines = blocks[-1].splitlines() if blocks else []
    matches = [match for line in lines if (match := _LINE.fullmatch(line.strip()))]
    return tuple(
        msgspec.convert(
            {"id": int(match[1]), "answer": match[2], "reason": match[3].strip()}, CommentAnswer
        )
        for match in matches
    )


def remove_answers(text: str) -> str:
    """Return a text without its blocks of answers, for a summary."""
    return _BLOCK.sub("", text).strip() if LANGUAGE in text else text


def write_comments(round: int, comments: Sequence[ReviewComment], *, tools: bool) -> str:
    """Write the comments of a round for the agent that handles them."""
    by_tool = " or call the tool `answer_comment`" if tools else ""
    return "\n".join(
        [
            f"This is round {round} of a review by a person. The workspace holds your work so far.",
            "Change it so that each comment is handled, or say why you did not.",
            "",
            *(line for comment in comments for line in _lines(comment)),
            "",
            f"For each comment, end your last message with a line in a block like this{by_tool}:",
            "",
            f"```{LANGUAGE}",
            "NUMBER handled: what you changed",
            "NUMBER answered: why you left it",
            "```",
        ]
    )


def _lines(comment: ReviewComment) -> list[str]:
    side = " (the line was removed)" if comment.side == "old" else ""
    line = f":{comment.lines}" if comment.line else ""
    place = f"`{comment.path}`{line}{side}" if comment.path else "the change as a whole"
    quoted = [f"  | {line}" for line in comment.quoted.split("\n")] if comment.quoted else []
    text = [f"  > {line}" for line in comment.text.splitlines()]
    return [f"- Comment {comment.id}, on {place}:", *quoted, *text]
