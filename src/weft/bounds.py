"""Bounds on input, by a command, over HTTP, or as a tool's argument.

All faces state and keep the same bounds. Pages, waits and the size of a request are each face's
own.
"""

from __future__ import annotations

from typing import Final

NUMBER: Final = 2**53  # a task, a fence, an amount: exact in every JSON reader
NAME: Final = 100  # characters of a name, a role, a capability
CAPABILITIES: Final = 50  # of a member
TASKS: Final = 20  # of a member at once
TITLE: Final = 100  # characters
TEXT: Final = 1 << 20  # characters of a task, a report or a result
MESSAGE: Final = 100_000  # characters
COMMENT: Final = 10_000  # characters of a comment in a review
REASON: Final = 1000  # characters
ACK: Final = 100  # characters
NEEDS: Final = 1000  # tasks that a task needs
FILES: Final = 1000  # claimed or requested at once by a task
PATH: Final = 1000  # characters of each file

PLAN: Final = 1 << 20  # characters of a plan that comes as text
RUN_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$"
STAGES: Final = 20  # of a run's tasks
SLOTS: Final = 256  # agents of a run at a time
DOLLARS: Final = 1_000_000  # a run's budget is below that
REF: Final = 200  # characters of a run's start commit
