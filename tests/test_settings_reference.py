"""The reference of the settings: generated, complete, and true."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import jsonschema
import pytest
import yaml

from settings_reference import (
    PAGE,
    SOURCES,
    VARIABLES,
    agent_schema,
    agent_settings,
    outputs,
    sections,
    weft_toml_schema,
)
from weft.agents.agent_file import SETTINGS
from weft.config import DEFAULT_LIMITS, SECTIONS, Config, parse
from weft.errors import InputError

PRIVATE = {
    *("WEFT_ATTEMPT", "WEFT_ATTEMPT_MARK", "WEFT_CHECK", "WEFT_COMPLETE", "WEFT_EVENT"),
    *("WEFT_FILES", "WEFT_ITSELF", "WEFT_MCP_TOKEN", "WEFT_MCP_TOKEN_FILE", "WEFT_MCP_URL"),
    *("WEFT_PORT", "WEFT_PORT_", "WEFT_RUN", "WEFT_SCRIPTED_STATE", "WEFT_STAGE", "WEFT_TASK"),
    *("WEFT_", "WEFT_LIMIT_", "WEFT_LIMIT_STAGE_TEST", "WEFT_PROBE_ROOT", "WEFT_PROBE_REPORT"),
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


GOOD = '[gate]\nrun = "make test"\nslots = 3\n[limits]\nllm = 2\n"provider:x" = 1\n[workspace]\n'
AGENT = (
    "runs: claude\nsandbox: {kind: on, network: no}\nenv: [A, {B: c}]\nbudget: 2.50\ntimeout: 9m\n"
)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (weft_toml_schema(), tomllib.loads(GOOD), tomllib.loads("[gate]\nrum = 1\n")),
        (weft_toml_schema(), tomllib.loads('[gate]\nrun = ["make"]\n'), tomllib.loads("[g]\n")),
        (agent_schema(), yaml.safe_load(AGENT), {"runs": "claude", "sandbx": "on"}),
        (agent_schema(), {"runs": "claude"}, {"description": "no program"}),
    ],
)
def test_a_schema_takes_good_files_and_refuses_typos(
    schema: dict[str, Any], good: object, bad: object
) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(good, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(bad, schema)
