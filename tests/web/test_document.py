"""The OpenAPI document: what it says, and that what it says is so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from web.server import Server, serving

_CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "403", "404", "409", "422", "429"]
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "409", "414", "415", "422", "431"]
"""
"""What has the right shape may still be refused: a used key, an agent that is not there."""


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


def test_a_wrong_method_is_told_the_right_ones(server: Server) -> None:
    client = server.client()
    for path, allowed in (
        ("/v1/tasks", "GET, POST"),
        ("/v1/tasks/7/messages", "GET, POST"),
        ("/v1/limits/run/agents", "PUT"),
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
        env={**os.environ, "SCHEMATHESIS_HOOKS": "web.schemathesis_hooks",
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
