"""Checks and set-up run an agent's code, so they run in a box: before and after a review."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gate.gate_run import Stage, drive, gate_site, task
from weft.config import BoxKind, WorkspaceSettings
from weft.model import TaskRequest
from weft.process.box import available
from weft.store.reviews import accept_review, list_reviews

ATTACK = """
cat ~/.ssh/id && exit 9
cat {token} && exit 9
echo harm >> ~/.bashrc 2>/dev/null
echo harm > {checkout}/harm 2>/dev/null
git log -1 --format=%s || exit 8
grep -q 2 src/a
"""


@pytest.fixture(autouse=True)
def needs_a_box() -> None:
    if available().resolve(BoxKind.BWRAP) is BoxKind.OFF:
        pytest.skip("bwrap is not to be had on this machine")


@pytest.fixture
def user(tmp_path: Path, stage: Stage) -> Path:
    home = tmp_path / "user"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("key\n")
    (home / ".bashrc").write_text("mine\n")
    token = stage.root / ".git" / "weft" / "server.token"
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text("weft_secret\n")
    return home


def attack(stage: Stage) -> tuple[str, ...]:
    token = stage.root / ".git" / "weft" / "server.token"
    return ("sh", "-c", ATTACK.format(token=token, checkout=stage.root))


def assert_unharmed(stage: Stage, home: Path) -> None:
    assert (home / ".bashrc").read_text() == "mine\n"
    assert not (stage.root / "harm").exists()


def test_a_check_reads_no_key_and_writes_nothing_outside(stage: Stage, user: Path) -> None:
    stage.submit([task("a")])
    stage.bring("a", {"src/a": "a = 2\n"})
    environment = {**os.environ, "HOME": str(user)}
    with gate_site(stage, run=attack(stage), sandbox=BoxKind.ON, environment=environment) as site:
        drive(stage, lambda: stage.are(a="done"), site=site)
    assert_unharmed(stage, user)


def test_set_up_and_teardown_read_no_key_and_write_nothing_outside(
    stage: Stage, user: Path
) -> None:
    stage.submit([task("a")])
    stage.bring("a", {"src/a": "a = 2\n"})
    settings = WorkspaceSettings(
        setup=("sh", "-c", attack(stage)[2].rpartition("grep")[0]),
        teardown=("sh", "-c", f"cat ~/.ssh/id > src/key; echo harm > {stage.root}/harm"),
    )
    environment = {**os.environ, "HOME": str(user)}
    with gate_site(
        stage, run=("true",), sandbox=BoxKind.ON, workspace=settings, environment=environment
    ) as site:
        drive(stage, lambda: stage.are(a="done"), site=site)
    assert_unharmed(stage, user)


def test_a_check_has_no_network_unless_the_settings_give_it(stage: Stage) -> None:
    stage.submit([task("a")])
    stage.bring("a", {"src/a": "a = 2\n"})
    lines = ("sh", "-c", "test $(grep -c : /proc/net/dev) = 1")  # the loopback device alone
    with gate_site(stage, run=lines, sandbox=BoxKind.ON) as site:
        drive(stage, lambda: stage.are(a="done"), site=site)


def test_a_gate_without_a_box_runs_checks_with_the_users_rights(stage: Stage, user: Path) -> None:
    """Shows that the attack above would succeed without the box."""
    stage.submit([task("a")])
    stage.bring("a", {"src/a": "a = 2\n"})
    environment = {**os.environ, "HOME": str(user)}
    line = ("sh", "-c", f"cat ~/.ssh/id > {user}/stolen")
    with gate_site(stage, run=line, sandbox=BoxKind.OFF, environment=environment) as site:
        drive(stage, lambda: stage.are(a="done"), site=site)
    assert (user / "stolen").read_text() == "key\n"


def test_nothing_of_a_candidate_runs_outside_before_or_after_its_acceptance(
    stage: Stage, user: Path
) -> None:
    """The check runs a script of the candidate, again after trunk has moved."""
    stage.submit([task("a", request=TaskRequest(review=True)), task("b")])
    attack = f"cat ~/.ssh/id > {user}/stolen\necho harm > {stage.root}/harm\ntrue\n"
    stage.bring("a", {"src/a": attack})
    run = ("sh", "-c", "! grep -q ssh src/a || sh src/a")
    environment = {**os.environ, "HOME": str(user)}
    with gate_site(stage, run=run, sandbox=BoxKind.ON, environment=environment) as site:
        drive(stage, lambda: bool(list_reviews(stage.store, stage.numbers["a"])), site=site)
        stage.bring("b", {"src/b": "b = 2\n"})
        drive(stage, lambda: stage.are(b="done"), site=site)
        assert_unharmed(stage, user)
        checks = stage.check_runs()
        [review] = list_reviews(stage.store, stage.numbers["a"])
        accept_review(stage.store, review.entry, now=5)
        drive(stage, lambda: stage.are(a="done"), site=site)
        assert stage.check_runs() == checks + 1
    assert_unharmed(stage, user)
    assert not (user / "stolen").exists()
