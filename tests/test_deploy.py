"""The files in deploy/, checked by the programs and schemas that will read them."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from cases import each_case
from weft.cli import weft

DEPLOY = Path(__file__).parent.parent / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
VERSIONS = ("1.31", "1.34")


def assert_understood(words: list[str]) -> None:
    """Let weft's own parser read a command line of a service."""
    program, *arguments = words
    assert Path(program).name == "weft"
    name, command, options = weft.resolve_command(click.Context(weft), arguments)
    assert command is not None
    command.make_context(name, options)  # raises for an option that is not there


def unit(path: Path) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case
    parser.read(path)
    return parser["Service"]


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    names = []
    for path in UNITS:
        # The program must exist for systemd; an instance is verified in place of a template.
        text = path.read_text().replace("/opt/weft/bin/weft", sys.executable)
        name = path.name.replace("@.", "@1.")
        (tmp_path / path.name).write_text(text)
        names.append(str(tmp_path / name))
    done = subprocess.run(
        [program, "verify", "--man=no", *names], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@each_case("path", UNITS)
def test_a_unit_starts_a_command_of_weft_and_stops_it_gently(path: Path) -> None:
    service = unit(path)
    assert_understood(shlex.split(service["ExecStart"]))
    assert service["Type"] == "notify"
    assert service["Delegate"] == "yes"
    assert service["KillMode"] == "mixed"
    assert service["LoadCredential"].startswith("pgpass:")
    patience = int(service["TimeoutStopSec"])
    [shutdown] = [line for line in path.read_text().split() if "SHUTDOWN_TIMEOUT" in line]
    assert patience > int(shutdown.split("=")[-1]) / 1000 + 30  # the graces of TERM and KILL


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in MANIFESTS:
        for document in yaml.safe_load_all(path.read_text()):
            yield f"{document['kind']} {document['metadata']['name']}", document


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", [pytest.param(d, id=name) for name, d in documents()])
def test_kubernetes_accepts_the_manifests(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_the_schemas_would_refuse_a_misspelt_field() -> None:
    document = next(d for name, d in documents() if name.startswith("Deployment"))
    spoilt = {**document, "spec": {**document["spec"], "replica": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(spoilt, VERSIONS[0], strict=True)


@pytest.mark.parametrize(
    "document", [pytest.param(d, id=name) for name, d in documents() if d["kind"] == "Deployment"]
)
def test_a_deployment_selects_its_pods_and_drains_them(document: dict[str, Any]) -> None:
    spec = document["spec"]
    pod = spec["template"]
    labels = pod["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    [container] = pod["spec"]["containers"]
    assert_understood(container["args"])
    if "worker" in container["args"]:
        grace = pod["spec"]["terminationGracePeriodSeconds"]
        [shutdown] = [e["value"] for e in container["env"] if e["name"] == "SHUTDOWN_TIMEOUT"]
        assert grace > int(shutdown) / 1000 + 30
        assert "kill -TERM 1" in container["lifecycle"]["preStop"]["exec"]["command"][-1]


def test_a_service_selects_the_pods_that_listen_at_its_port() -> None:
    found = dict(documents())
    service, pod = found["Service weft"]["spec"], found["Deployment weft-serve"]["spec"]["template"]
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
    ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    assert {port["targetPort"] for port in service["ports"]} <= ports
