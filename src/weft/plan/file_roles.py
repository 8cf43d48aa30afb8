"""The role of a file in the text of a task: to be changed, to be read, or to be left alone."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final


class FileRole(StrEnum):
    CHANGED = "changed"
    READ = "read"  # "see X", "as in X"
    FORBIDDEN = "forbidden"  # "do not touch X"


_FAR: Final = 200  # characters around a file that may say how it is meant
_SENTENCE_END = re.compile(r"[.!?;][ \t\n]|\n[ \t]*\n|\n[ \t]*[-*+][ \t]")
_ASIDE = re.compile(r"\([^()]*\)")
# The last of these words before a file says how it is meant.
_CUES = re.compile(
    r"""
    (?P<forbidden>
        \b(?:(?:do|does|must|may|should|will)[ ]not|don['’]?t|never|without|avoid|no[ ]need[ ]to)
            [ ]+\w+
        | \b(?:leave|except(?:[ ]for)?|apart[ ]from|other[ ]than|instead[ ]of|rather[ ]than|
            but[ ]not)\b
    )
    | (?P<read>
        \b(?:see(?:[ ]also)?|read|refers?[ ]to|referring[ ]to|cf|consult|compare|like|
            as[ ]in|similar[ ]to|same[ ]as|per|according[ ]to|based[ ]on|
            (?:described|specified|documented|defined)[ ]in|follow(?:s|ing)?|mirror(?:s|ing)?|
            look[ ]at|copy[ ]from|import(?:s|ed|ing)?[ ]from|(?:used|called|tested)[ ]by)\b
    )
    | (?P<changed>
        \b(?:add|append|build|change|create|delete|document|edit|extend|fill|fix|generate|implement|
            introduce|make|migrate|modify|move|put|refactor|remove|rename|replace|rewrite|split|
            test|touch|update|write|wire)(?:s|es|d|ed|ing)?\b
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_KEPT_BEHIND = re.compile(
    r"""
    [`*)\s]*(?:
        stays?\b|remains?\b|(?:must|should|may|will|is|are|does|do)[ ]not\b|
        (?:(?:is|are)[ ])?(?:unchanged|untouched)\b|alone\b|as[ ](?:it[ ]is|they[ ]are)\b
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)


def find_role(text: str, start: int, end: int) -> FileRole:
    """Tell how a text means the file that it names there; by default it is to be changed."""
    before = _ASIDE.sub(" ", _SENTENCE_END.split(text[max(0, start - _FAR) : start])[-1])
    behind = _SENTENCE_END.split(text[end : end + _FAR])[0]
    if _KEPT_BEHIND.match(behind):
        return FileRole.FORBIDDEN
    cues = [cue.lastgroup for cue in _CUES.finditer(before)]
    return FileRole(cues[-1]) if cues and cues[-1] else FileRole.CHANGED
