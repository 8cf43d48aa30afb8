"""What a trial says: for every class of failure something a person can act on."""

from __future__ import annotations

from msgspec.structs import replace

from agents.streams import agent
from cases import each_case
from weft.agents.agent import RECORDED
from weft.maintenance.agent_trial import explain
from weft.model import ErrorClass


@each_case("problem", list(ErrorClass))
def test_every_class_of_failure_is_explained(problem: ErrorClass) -> None:
    told = explain(agent("claude"), "claude", problem, "claude gave up. It said: no")
    assert told.endswith((".", "no"))
    assert "{" not in told
    assert "claude" in told or problem is ErrorClass.STOPPED


@each_case(
    ("problem", "words"),
    [
        (ErrorClass.AUTH, "log in, or set ANTHROPIC_API_KEY"),
        (ErrorClass.NO_CHANGE, "`args`, `tools` and `sandbox`"),
        (ErrorClass.CONFIG, "`runs`, `model` and `args`"),
        (ErrorClass.RATE_LIMIT, "installed and logged in"),
        (ErrorClass.OTHER, "It said: no"),
    ],
)
def test_the_cure_is_named(problem: ErrorClass, words: str) -> None:
    assert words in explain(agent("claude"), "claude", problem, "claude gave up. It said: no")


def test_the_cause_of_a_recorded_agent_is_told() -> None:
    """It has no program, model or arguments to look at."""
    reason = "No recording fits attempt 1 of task trial: there are no recordings."
    played = replace(agent("claude"), runs=RECORDED)
    assert explain(played, "played", ErrorClass.CONFIG, reason) == reason
