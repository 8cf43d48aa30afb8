"""What an agent may write and reach in a sandbox."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import anyio
import pytest

from places import tmp_path as tmp_path
from process.stage import Stage
from weft.process import landlock, records
from weft.process.sandbox import (
    Able,
    Kind,
    Network,
    Sandbox,
    apply,
    available,
    bwrap_prefix,
    choose,
)

NOTHING = Able(landlock=0, bwrap=False)
EVERYTHING = Able(landlock=7, bwrap=True)


def box(kind: Kind, *paths: Path, network: Network = Network.OPEN) -> Sandbox:
    return Sandbox(kind=kind, writable=paths, network=network)


def run_sandboxed(stage: Stage, sandbox: Sandbox, program: str) -> None:
    able = available()
    if (sandbox.kind is Kind.LANDLOCK and not able.landlock) or (
        sandbox.kind is Kind.BWRAP and not able.bwrap
    ):
        pytest.skip(f"{sandbox.kind} cannot be used here")
    spawn = apply(sandbox, stage.spawn(sys.executable, "-S", "-c", program, stage.token))
    ended = anyio.run(stage.start(spawn).wait_ended)
    assert ended.code == 0, (stage.directory / records.STDERR).read_text() + ended.unstarted


@pytest.mark.parametrize("kind", [Kind.LANDLOCK, Kind.BWRAP])
def test_writes_go_into_the_workspace_and_nowhere_else(
    stage: Stage, tmp_path: Path, kind: Kind
) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    (outside / "file").write_text("kept")
    program = f"""
import os, subprocess, sys
os.chdir({str(workspace)!r})
open("new", "w").write("x")
os.mkdir("sub")
os.rename("new", "sub/moved")
os.symlink({str(outside)!r}, "link")
open("/dev/null", "w").write("x")
def refused(act):
    try:
        act()
    except OSError:
        return
    sys.exit(f"{{act.__code__.co_consts}} was not refused")
refused(lambda: open({str(outside / "other")!r}, "w"))
refused(lambda: open({str(outside / "file")!r}, "w"))
refused(lambda: open("link/other", "w"))
refused(lambda: os.unlink({str(outside / "file")!r}))
refused(lambda: os.rename("sub/moved", {str(outside / "moved")!r}))
refused(lambda: os.truncate({str(outside / "file")!r}, 0))
assert open({str(outside / "file")!r}).read() == "kept"
child = subprocess.run(["sh", "-c", "echo x > {outside}/child"], stderr=subprocess.DEVNULL)
assert child.returncode != 0
"""
    run_sandboxed(stage, box(kind, workspace), program)
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (workspace / "sub" / "moved").read_text() == "x"


@pytest.mark.parametrize("kind", [Kind.LANDLOCK, Kind.BWRAP])
def test_an_agent_without_network_cannot_connect(stage: Stage, tmp_path: Path, kind: Kind) -> None:
    if kind is Kind.LANDLOCK and landlock.version() < landlock.NETWORK_VERSION:
        pytest.skip("this kernel's Landlock knows no network")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        connect = f"import socket; socket.create_connection({address!r}, 5)"
        refused = f"try:\n    {connect}\nexcept OSError: pass\nelse: raise SystemExit('connected')"
        run_sandboxed(stage, box(kind, tmp_path, network=Network.NONE), refused)
        open_stage = Stage(tmp_path / "open", stage.launcher)
        run_sandboxed(open_stage, box(kind, tmp_path), connect)


@pytest.mark.parametrize(
    ("wanted", "able", "used", "warning"),
    [
        (box(Kind.LANDLOCK), EVERYTHING, Kind.LANDLOCK, None),
        (box(Kind.BWRAP), EVERYTHING, Kind.BWRAP, None),
        (box(Kind.OFF), NOTHING, Kind.OFF, None),
        (box(Kind.LANDLOCK), NOTHING, Kind.OFF, "no Landlock"),
        (box(Kind.BWRAP), NOTHING, Kind.OFF, "not installed"),
        (box(Kind.BWRAP, network=Network.NONE), EVERYTHING, Kind.BWRAP, None),
        (box(Kind.LANDLOCK, network=Network.NONE), EVERYTHING, Kind.LANDLOCK, "other protocols"),
        (
            box(Kind.LANDLOCK, network=Network.NONE),
            Able(landlock=3, bwrap=False),
            Kind.LANDLOCK,
            "cannot take it away",
        ),
        (box(Kind.OFF, network=Network.NONE), EVERYTHING, Kind.OFF, "has network access"),
    ],
)
def test_less_than_was_wanted_comes_with_a_warning(
    wanted: Sandbox, able: Able, used: Kind, warning: str | None
) -> None:
    sandbox, said = choose(wanted, able)
    assert sandbox.kind is used
    assert (said is None) == (warning is None)
    assert warning is None or warning in (said or "")


def test_bubblewrap_binds_what_is_writable_over_a_world_that_is_not() -> None:
    words = bwrap_prefix(box(Kind.BWRAP, Path("/w s"), network=Network.NONE))
    assert words[:4] == ("bwrap", "--ro-bind", "/", "/")
    assert words[6:9] == ("--bind-try", "/w s", "/w s")
    assert words[-2:] == ("--unshare-net", "--")
