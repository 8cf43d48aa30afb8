"""The OpenAPI document: what it says, and that what it says is so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api_http.server_process import Server, serving
from weft.api.http.openapi import by_name

_CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "403", "404", "409", "422", "429"]
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "409", "414", "415", "422", "431"]
"""
"""What has the right shape may still be refused: a used key, an agent that is not there. That it
is never refused for its shape is a check of our own, in `schemathesis_hooks`."""


def test_every_operation_says_who_may_ask_and_what_can_go_wrong(server: Server) -> None:
    document = server.client().get("/openapi.json")
    assert len(document["paths"]) >= 30
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["security"] == ([] if path.endswith("z") else [{"token": []}])
            for status in ("401", "409", "422", "429", "503"):
                assert "application/problem+json" in operation["responses"][status]["content"]
            keyed = [one["name"] for one in operation["parameters"]]
            assert ("Idempotency-Key" in keyed) == (method == "post")


def bodies(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation:
                content = operation["requestBody"]["content"]["application/json"]
                yield method, path, content["schema"]


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").removeprefix("#/components/schemas/")
    return dict(document["components"]["schemas"][name]) if name else schema


def smallest(document: dict[str, Any], schema: dict[str, Any]) -> Any:
    """The least that obeys a schema of a request."""
    schema = resolved(document, schema)
    if "enum" in schema or "const" in schema:
        return schema.get("enum", [schema.get("const")])[0]
    match schema.get("type"):
        case "object":
            fields, needed = schema.get("properties", {}), schema.get("required", [])
            return {name: smallest(document, fields[name]) for name in needed}
        case "array":
            return [smallest(document, schema["items"])] * schema.get("minItems", 0)
        case "string":
            return "a" * schema.get("minLength", 0)
        case "integer" | "number":
            least = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
            return max(int(least), 0)
        case None if "anyOf" in schema:
            return smallest(document, schema["anyOf"][0])
    raise AssertionError(schema)


def test_the_least_that_every_operation_asks_for_has_the_right_shape(tmp_path: Path) -> None:
    # On a server of its own: one of these requests drains it.
    with serving(tmp_path, f"sqlite:///{tmp_path / 'weft.db'}") as server:
        client = server.client()
        document = client.get("/openapi.json")
        asked = list(bodies(document))
        assert len(asked) >= 15
        for method, path, schema in asked:
            assert resolved(document, schema)["additionalProperties"] is False, path
            body = smallest(document, schema)
            where = path.replace("{id}", "999").replace("{resource}", "nothing")
            answer = client.http.request(method, where, json=body)
            malformed = answer.status_code == 422 and answer.json()["type"] == "malformed"
            assert not malformed, (method, path, body, answer.text)


def test_a_token_is_asked_for_by_what_its_maker_says_and_a_reason_by_itself(
    server: Server,
) -> None:
    document = server.client().get("/openapi.json")
    asked = {
        path: set(resolved(document, schema)["properties"]) for _, path, schema in bodies(document)
    }
    assert asked["/v1/tokens"] == {"name", "scopes", "tenant", "agents", "expires_in"}
    assert asked["/v1/cancel"] == {"name", "reason"}
    assert asked["/v1/tasks/{id}/reject"] == {"reason"}


def test_no_name_in_the_document_stands_for_two_things() -> None:
    asked, answered = {"Why": {"type": "object"}}, {"Why": {"type": "string"}}
    with pytest.raises(RuntimeError, match=r"one name for two schemas \(Why\)"):
        by_name(asked, answered)
    assert by_name(asked, {"Because": {}}) == {**asked, "Because": {}}


def test_a_wrong_method_is_told_the_right_ones(server: Server) -> None:
    client = server.client()
    for path, allowed in (
        ("/v1/tasks", "GET, POST"),
        ("/v1/tasks/7/messages", "GET, POST"),
        ("/v1/set_limit", "POST"),
    ):
        answer = client.http.patch(path, json={})
        assert answer.status_code == 405
        assert answer.headers["allow"] == allowed


def run_schemathesis(server: Server, directory: Path, *arguments: str) -> None:
    config = directory / "schemathesis.toml"
    config.write_text(_CONFIG)
    command: list[Any] = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", config,
        "run", f"{server.url}/openapi.json", "-H", f"Authorization: Bearer {server.token}",
        "--generation-deterministic", "--no-color", "--suppress-health-check", "all",
        "--exclude-path", "/v1/events",  # it never ends
        "--exclude-path", "/v1/tokens/{id}",  # it would revoke its own
        "--warnings", "off", *arguments,
    ]  # fmt: skip
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "api_http.schemathesis_hooks",
             "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout or "passed" in done.stdout


@pytest.mark.timeout(600)
def test_requests_made_up_from_the_document_are_answered_as_it_says(tmp_path: Path) -> None:
    with serving(tmp_path, f"sqlite:///{tmp_path / 'weft.db'}") as server:
        # By one worker: Python 3.11 does not always survive two threads that read its own syntax.
        run_schemathesis(server, tmp_path, "--phases", "coverage", "--workers", "1")
        assert "Traceback" not in server.log()


@pytest.mark.chaos
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="the longer version: make chaos")
@pytest.mark.timeout(1200)
def test_many_requests_made_up_from_the_document_are(tmp_path: Path, url: str) -> None:
    with serving(tmp_path, url) as server:
        arguments = ("--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "50")
        run_schemathesis(server, tmp_path, *arguments)
        assert "Traceback" not in server.log()
