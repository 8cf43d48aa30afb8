"""Teams: what several entrants cost in time beside a single agent."""

from __future__ import annotations

from bench.figures import figure, median_ratio
from bench.measure_runs import project

_SLEEPING = """---
runs: [sh, -c, 'sleep 2; echo x > $WEFT_FILES']
---
"""


def _measure(team: str) -> float:
    """How long a run of a single task takes, from the call to its end."""
    with project(_SLEEPING) as place:
        place.write("plan.md", f"- [ ] Do it\n  <!-- files: f1; {team} -->\n")
        return place.run("plan.md", "--slots", "4", "--no-tty")


@figure("team_overhead_ratio", "ratio", at_most=1.3)
def team_overhead_ratio() -> float:
    """The best of 3 entrants of 2 s with free slots ÷ a single agent of 2 s."""
    return median_ratio(lambda: _measure("team: 3 of implement"), lambda: _measure(""), rounds=3)
