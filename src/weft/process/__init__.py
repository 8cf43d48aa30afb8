"""Programs: short commands, and long agents supervised down to the last descendant.

Knows no stores, git or agent files. Short commands are here by name; the rest is imported from its
file: `agent_process` starts and stops, `output_tail` reads the output, `environment` and `sandbox`
decide which variables and files a process may see.
"""

from weft.process.commands import (
    Breaker,
    BrokenOff,
    Completed,
    ProgramMissing,
    run,
    run_attached,
    run_logged,
    start_detached,
)

__all__ = [
    "Breaker",
    "BrokenOff",
    "Completed",
    "ProgramMissing",
    "run",
    "run_attached",
    "run_logged",
    "start_detached",
]
