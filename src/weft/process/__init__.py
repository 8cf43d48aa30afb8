"""Everything weft does with programs: run a short one, supervise a long one to its last descendant.

Knows nothing of stores, git or what an agent is for. Short commands are here by name; the
rest is imported from its file: `agent` starts and stops, `tail` reads what was printed,
`limits`, `environment` and `sandbox` decide what a process may take, see and touch.
"""

from weft.process.commands import (
    Breaker,
    BrokenOff,
    Completed,
    ProgramMissing,
    run,
    run_logged,
)

__all__ = ["Breaker", "BrokenOff", "Completed", "ProgramMissing", "run", "run_logged"]
