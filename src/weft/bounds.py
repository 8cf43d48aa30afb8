"""How much may be handed in, whichever way: by a command, over HTTP, or as a tool's argument.

The faces say these numbers in their own words, and what is behind them holds to them; so what one
face takes, the other takes as well. Pages, waits and the size of a request are each face's own.
"""

from __future__ import annotations

from typing import Final

NUMBER: Final = 2**53  # of a task, a fence, an amount: what every reader of JSON keeps exactly
NAME: Final = 100  # characters of a name, a role, a capability
CAPABILITIES: Final = 50  # of a member
TASKS: Final = 20  # that a member works on at once
TITLE: Final = 100  # characters
TEXT: Final = 1 << 20  # characters of a task, of what is told about it, of its result
MESSAGE: Final = 100_000  # characters
REASON: Final = 1000  # characters
ACK: Final = 100  # characters
NEEDS: Final = 1000  # tasks that a task needs
FILES: Final = 1000  # that a task claims, or asks for at once
PATH: Final = 1000  # characters of each

PLAN: Final = 1 << 20  # characters of a plan that comes as text
RUN_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$"
STAGES: Final = 20  # of a run's tasks
SLOTS: Final = 256  # agents of a run at a time
DOLLARS: Final = 1_000_000  # a run's budget is below that
REF: Final = 200  # characters of what a run starts from
