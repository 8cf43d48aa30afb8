"""What a trial says: for every class of failure something a person can act on."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from agents.streams import agent
from cases import each_case
from repositories import make_repository
from weft.agents.agent import RECORDED
from weft.maintenance.agent_trial import explain, throw_away
from weft.model import ErrorClass
from weft.project.project import get_project
from weft.project.site import read_agent


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


def test_a_trial_has_the_boxes_of_the_project(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "project")
    (root / "weft.toml").write_text('[sandbox]\nimage = ".devcontainer.json"\nread = ["/srv"]\n')
    (root / ".weft" / "agents").mkdir(parents=True)
    (root / ".weft" / "agents" / "some.md").write_text("---\nruns: claude\n---\nDo it.\n")
    project = get_project(root, {})
    with throw_away(project, read_agent(root, "some")) as trial:
        sandbox = trial.project.config.sandbox
        assert sandbox.read == ("/srv",)
        assert sandbox.image == str(root / ".devcontainer.json")
