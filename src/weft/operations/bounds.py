"""How much may be handed in, whichever way: by a command, over HTTP, or as a tool's argument.

Each face says these in its own words; the operations hold to them. Numbers alone, so that
whoever needs one imports nothing else.
"""

from __future__ import annotations

from typing import Final

SLOTS: Final = 256  # agents of a run at a time
DOLLARS: Final = 1_000_000  # a run's budget is below that
STAGES: Final = 20  # of a run's tasks
REF: Final = 200  # characters of what a run starts from
PLAN: Final = 1 << 20  # characters of a plan that comes as text
