"""The reference of the settings: generated, complete, and true."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from cases import each_case
from settings_reference import (
    PAGE,
    SOURCES,
    VARIABLES,
    agent_schema,
    agent_settings,
    outputs,
    prd_schema,
    sections,
    weft_toml_schema,
)
from weft import plan
from weft.agents.agent_file import SETTINGS
from weft.cli.help import schema
from weft.config import DEFAULT_LIMITS, SECTIONS, Config, parse
from weft.errors import InputError
from weft.plan import prd
from weft.plan.plan_records import Source

PRIVATE = {
    *("WEFT_ATTEMPT", "WEFT_ATTEMPT_MARK", "WEFT_CHECK", "WEFT_COMPLETE", "WEFT_EVENT"),
    *(
        "WEFT_FILES",
        "WEFT_HOST_TOKEN_FILE",
        "WEFT_ITSELF",
        "WEFT_MCP_TOKEN",
        "WEFT_MCP_TOKEN_FILE",
        "WEFT_MCP_URL",
    ),
    *("WEFT_PORT", "WEFT_PORT_", "WEFT_RUN", "WEFT_SCRIPTED_STATE", "WEFT_STAGE", "WEFT_TASK"),
    *(
        "WEFT_",
        "WEFT_LIMIT_",
        "WEFT_TUNING_",
        "WEFT_LIMIT_STAGE_TEST",
        "WEFT_PROBE_ROOT",
        "WEFT_PROBE_REPORT",
    ),
}
"""Variables that weft sets for its processes, agents, checks and notices, and parts of names."""


def test_the_page_and_the_schemas_are_as_generated() -> None:
    for path, text in outputs().items():
        assert path.read_text() == text, f"`make reference` writes {path}"


def test_each_setting_has_a_meaning() -> None:
    for section, settings in sections().items():
        for setting in settings:
            assert setting.meaning, f"[{section}] {setting.name} has no comment"
            assert setting.type, f"[{section}] {setting.name} has a type that no schema describes"
    assert all(setting.meaning for setting in agent_settings())


def test_no_setting_is_missing() -> None:
    assert list(sections()) == list(SECTIONS)
    limits = {setting.name for setting in sections()["limits"]}
    assert limits == {*DEFAULT_LIMITS, "provider:<name>"}
    assert [setting.name for setting in agent_settings()] == list(SETTINGS)
    for section, settings in sections().items():
        for name in (setting.name for setting in settings if section != "limits"):
            with pytest.raises(InputError) as refusal:
                parse(f"[{section}]\n{name} = {{}}\n", {})
            assert "unknown" not in str(refusal.value)


def test_each_variable_that_people_set_is_on_the_page() -> None:
    text = "".join(path.read_text() for path in SOURCES.rglob("*.py"))
    assert {*re.findall(r"\bWEFT_[A-Z_]*", text)} - PRIVATE <= {*VARIABLES}
    assert all(f"`{name}`" in PAGE.read_text() for name in VARIABLES)


def test_the_defaults_on_the_page_are_those_of_an_empty_file() -> None:
    config = parse("", {})
    for section in ("gate", "workspace", "notify", "tuning"):
        for setting in sections()[section]:
            value = getattr(getattr(config, section), setting.name)
            assert setting.default.strip('"') == (
                "none"
                if value in (None, ())
                else f"{value:g}"
                if isinstance(value, float)
                else str(value).lower()
            )
    assert Config().store is None


STORY = {
    "id": "S-1",
    "title": "a",
    "files": "none",
    "dependsOn": ["S-2"],
    "acceptanceCriteria": ["b"],
    "priority": "high",
    "subtasks": [{"title": "c", "passes": False}],
    "branchName": "x",
}
GOOD = '[gate]\nrun = "make test"\nslots = 3\n[limits]\nllm = 2\n"provider:x" = 1\n[workspace]\n'
AGENT = (
    "runs: claude\nsandbox: {kind: on, network: no}\nenv: [A, {B: c}]\nbudget: 2.50\ntimeout: 9m\n"
)


@each_case(
    ("schema", "good", "bad"),
    [
        (weft_toml_schema(), tomllib.loads(GOOD), tomllib.loads("[gate]\nrum = 1\n")),
        (weft_toml_schema(), tomllib.loads('[gate]\nrun = ["make"]\n'), tomllib.loads("[g]\n")),
        (agent_schema(), yaml.safe_load(AGENT), {"runs": "claude", "sandbx": "on"}),
        (agent_schema(), {"runs": "claude"}, {"description": "no program"}),
        (prd_schema(), [{"id": 1, "title": "a"}], [{"title": "no id"}]),
        (
            prd_schema(),
            {"userStories": [{"id": "a", "title": "t", "passes": True}]},
            {"stories": 1},
        ),
        (prd_schema(), [{"id": 1, "description": "a"}], [{"id": 1, "title": ""}]),
        (prd_schema(), [STORY], [{**STORY, "subtasks": [{"files": []}]}]),
    ],
)
def test_a_schema_takes_good_files_and_refuses_typos(
    schema: dict[str, Any], good: object, bad: object
) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(good, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(bad, schema)


def examples(page: str, language: str) -> list[str]:
    """The fenced examples of a page in a language."""
    text = (PAGE.parent / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_pages_and_the_shipped_files_keep_to_the_schemas() -> None:
    shipped = SOURCES / "maintenance"
    toml = [*examples("checks-and-workspaces.md", "toml"), (shipped / "weft.toml").read_text()]
    agents = [*examples("agents.md", "markdown")]
    agents += [path.read_text() for path in sorted(shipped.glob("*agents/*.md"))]
    stories = examples("plans.md", "json")[:1]
    assert (len(toml), len(agents), len(stories)) == (2, 13, 1)
    for text in toml:
        jsonschema.validate(tomllib.loads(text), weft_toml_schema())
    for text in agents:
        jsonschema.validate(yaml.safe_load(text.split("---\n")[1]), agent_schema())
    for text in stories:
        jsonschema.validate(json.loads(text), prd_schema())


def test_each_key_that_the_reader_of_a_prd_knows_is_in_its_schema() -> None:
    definitions = prd_schema()["$defs"]
    assert {*prd.STORY_KEYS} <= definitions["story"]["properties"].keys()
    assert {*prd.SUBTASK_KEYS} <= definitions["subtask"]["properties"].keys()
    every = {**STORY, **{key: None for key in definitions["story"]["properties"] if key != "id"}}
    parsed = plan.read("prd.json", json.dumps([every]).encode())
    assert "unknown-key" not in {problem.code for problem in parsed.problems}


@each_case("name", ["weft.toml", "agent", "prd.json"])
def test_weft_prints_the_schemas_it_ships(name: str) -> None:
    shown = CliRunner().invoke(schema, [name])
    jsonschema.Draft202012Validator.check_schema(json.loads(shown.output))


@each_case("path", sorted((SOURCES.parents[1] / "tests/plans").glob("*.json")))
def test_the_schema_takes_each_prd_of_the_corpus_that_weft_takes(path: Path) -> None:
    parsed = plan.read(path.name, path.read_bytes())
    refused = any(problem.severity is plan.Severity.ERROR for problem in parsed.problems)
    if parsed.plan.source is Source.PRD and not refused:
        jsonschema.validate(json.loads(path.read_bytes()), prd_schema())
