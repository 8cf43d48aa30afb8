"""The wheel in a clean environment: few packages, the demo, and a sentence for missing extras."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest

from installation import ROOT, call
from repositories import make_repository
from weft.cli.missing_extra import DISTRIBUTION, EXTRAS

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.xdist_group("install")
def test_the_installed_wheel_runs_the_demo(installed: Path, tmp_path: Path) -> None:
    done = call(installed / "weft", "demo", "--json", tmp_path / "demo", directory=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["ok"]


@pytest.mark.xdist_group("install")
def test_a_command_of_a_missing_extra_names_the_command_that_installs_it(
    installed: Path, tmp_path: Path
) -> None:
    root = make_repository(tmp_path / "project")
    served = call(installed / "weft", "serve", directory=root)
    store = "postgresql://user@localhost/none"
    listed = call(installed / "weft", "ps", directory=root, WEFT_STORE=store)
    for done, extra in ((served, "server"), (listed, "postgres")):
        assert (done.returncode, done.stdout) == (2, "")
        [line] = done.stderr.splitlines()
        assert f"-m pip install '{DISTRIBUTION}[{extra}] @ file://" in line, line


def test_each_module_of_an_extra_is_a_dependency_of_that_extra() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    for extra, lines in PROJECT["optional-dependencies"].items():
        named = {line.split(">")[0].split("[")[0].replace("-", "_") for line in lines}
        assert named <= EXTRAS[extra]


def test_the_name_is_not_that_of_another_package_with_a_module_weft() -> None:
    assert PROJECT["name"] not in ("weft", "weft-server")


def test_doctor_reports_another_package_with_a_module_weft(tmp_path: Path) -> None:
    record = tmp_path / "site" / "weft_server-0.1.1.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: weft-server\nVersion: 0.1.1\n")
    (record / "top_level.txt").write_text("weft\n")
    command = (sys.executable, "-m", "weft", "doctor", "--json")
    done = call(*command, directory=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert not checks["install"]["ok"]
    assert "weft-server is installed in the same environment" in checks["install"]["text"]
    alone = call(*command, directory=tmp_path)
    assert "install" not in {check["name"] for check in json.loads(alone.stdout)["checks"]}
