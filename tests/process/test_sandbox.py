"""The files and the network that an agent reaches in a sandbox."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import anyio
import pytest

from disk_directory import tmp_path as tmp_path
from process.supervision import Stage
from weft.process import attempt_files, landlock
from weft.process.sandbox import (
    Able,
    Network,
    Sandbox,
    SandboxKind,
    apply,
    available,
    bwrap_prefix,
    choose,
)

NOTHING = Able(landlock=0, bwrap=False)
EVERYTHING = Able(landlock=7, bwrap=True)


def box(
    kind: SandboxKind,
    *paths: Path,
    network: Network = Network.OPEN,
    hidden: tuple[Path, ...] = (),
    readable: tuple[Path, ...] = (),
) -> Sandbox:
    return Sandbox(kind=kind, writable=paths, network=network, hidden=hidden, readable=readable)


def run_sandboxed(stage: Stage, sandbox: Sandbox, program: str) -> None:
    able = available()
    if (sandbox.kind is SandboxKind.LANDLOCK and not able.landlock) or (
        sandbox.kind is SandboxKind.BWRAP and not able.bwrap
    ):
        pytest.skip(f"{sandbox.kind} is not to be had on this machine")
    spawn = apply(sandbox, stage.spawn(sys.executable, "-S", "-c", program, stage.token))
    ended = anyio.run(stage.start(spawn).wait_ended)
    assert ended.code == 0, (stage.directory / attempt_files.STDERR).read_text() + ended.unstarted


@pytest.mark.parametrize("kind", [SandboxKind.LANDLOCK, SandboxKind.BWRAP])
def test_writes_go_into_the_workspace_and_nowhere_else(
    stage: Stage, tmp_path: Path, kind: SandboxKind
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


READ = """
def is_read(path):
    try:
        return bool(open(path, "rb").read())  # an empty file has been put over some
    except OSError:
        return False
for path in {hidden!r}:
    assert not is_read(path), f"{{path}} was read"
for path in {open!r}:
    assert is_read(path), f"{{path}} was not read"
"""


@pytest.mark.parametrize("kind", [SandboxKind.LANDLOCK, SandboxKind.BWRAP])
def test_hidden_places_are_not_read_and_their_neighbours_are(
    stage: Stage, tmp_path: Path, kind: SandboxKind
) -> None:
    home = tmp_path / "home"
    names = ["keys/id", "keys/open/id", "keys/box/deep/id", "near", ".config/tool/auth"]
    names += [".config/other/auth", "token", "linked/id"]
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret")
    (home / "way").symlink_to(home / "keys")
    (home / "second").symlink_to(home / "linked")
    hidden = ("keys", ".config/tool", "token", "second", "missing")
    program = READ.format(
        hidden=[f"{home}/{name}" for name in ("keys/id", ".config/tool/auth", "token", "linked/id")]
        + [f"{home}/way/id", f"/proc/self/root{home}/keys/id"],
        open=[f"{home}/{name}" for name in ("near", "keys/open/id", "keys/box/deep/id")]
        + [f"{home}/.config/other/auth", "/etc/passwd", sys.executable],
    )
    sandbox = box(
        kind,
        home / "keys" / "box",
        hidden=tuple(home / name for name in hidden),
        readable=(home / "keys" / "open",),
    )
    run_sandboxed(stage, sandbox, program)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities")
@pytest.mark.parametrize("kind", [SandboxKind.LANDLOCK, SandboxKind.BWRAP])
def test_an_agent_that_runs_as_root_keeps_few_capabilities(
    stage: Stage, tmp_path: Path, kind: SandboxKind
) -> None:
    kept = sum(1 << number for number in landlock.KEPT_CAPABILITIES.values())
    program = f"""
for line in open("/proc/self/status"):
    name, _, value = line.partition(":")
    if name in ("CapPrm", "CapEff"):
        assert int(value, 16) & ~{kept} == 0, line
        assert int(value, 16) & 2, line  # to write files of other owners
"""
    run_sandboxed(stage, box(kind, tmp_path), program)


@pytest.mark.parametrize("kind", [SandboxKind.LANDLOCK, SandboxKind.BWRAP])
def test_other_processes_of_the_user_are_out_of_reach(
    stage: Stage, tmp_path: Path, kind: SandboxKind
) -> None:
    if kind is SandboxKind.LANDLOCK and landlock.version() < landlock.SCOPE_VERSION:
        pytest.skip("this kernel's Landlock knows no signals")
    name = f"\0{stage.token}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        reach = f"""
import os, signal, socket, subprocess, sys
own = subprocess.Popen(["sleep", "60"])
own.send_signal(signal.SIGTERM)
assert own.wait() == -signal.SIGTERM
def refused(act):
    try:
        act()
    except OSError:
        return
    sys.exit("a process of the user was reached")
refused(lambda: open("/proc/{os.getpid()}/environ", "rb").read())
refused(lambda: os.kill({os.getpid()}, 0))
"""
        if kind is SandboxKind.LANDLOCK:
            reach += f"refused(lambda: socket.socket(socket.AF_UNIX).connect({name!r}))"
        run_sandboxed(stage, box(kind, tmp_path), reach)


@pytest.mark.parametrize("kind", [SandboxKind.LANDLOCK, SandboxKind.BWRAP])
def test_a_sandboxed_agent_ends_to_the_last_process(
    stage: Stage, tmp_path: Path, kind: SandboxKind
) -> None:
    able = available()
    if not (able.landlock if kind is SandboxKind.LANDLOCK else able.bwrap):
        pytest.skip(f"{kind} is not to be had on this machine")
    program = """
import signal, subprocess, sys, time
later = "import time; time.sleep(600)"
subprocess.Popen(["setsid", sys.executable, "-S", "-c", later, sys.argv[1]])
signal.signal(signal.SIGTERM, lambda *_: (print("asked", flush=True), time.sleep(0.05), exit(3)))
print("ready", flush=True)
time.sleep(600)
"""
    sandbox = box(kind, tmp_path)
    spawn = stage.spawn(sys.executable, "-S", "-c", program, stage.token)
    running = stage.start_ready(apply(sandbox, spawn))
    anyio.run(running.stop)
    assert stage.living() == []
    assert stage.output().count("asked") == 1


@pytest.mark.parametrize("kind", [SandboxKind.LANDLOCK, SandboxKind.BWRAP])
def test_an_agent_without_network_cannot_connect(
    stage: Stage, tmp_path: Path, kind: SandboxKind
) -> None:
    if kind is SandboxKind.LANDLOCK and landlock.version() < landlock.NETWORK_VERSION:
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
        (box(SandboxKind.LANDLOCK), EVERYTHING, SandboxKind.LANDLOCK, None),
        (box(SandboxKind.BWRAP), EVERYTHING, SandboxKind.BWRAP, None),
        (box(SandboxKind.OFF), NOTHING, SandboxKind.OFF, None),
        (box(SandboxKind.LANDLOCK), NOTHING, SandboxKind.OFF, "no Landlock"),
        (box(SandboxKind.BWRAP), NOTHING, SandboxKind.OFF, "not installed"),
        (box(SandboxKind.BWRAP, network=Network.NONE), EVERYTHING, SandboxKind.BWRAP, None),
        (
            box(SandboxKind.LANDLOCK, network=Network.NONE),
            EVERYTHING,
            SandboxKind.LANDLOCK,
            "other protocols",
        ),
        (
            box(SandboxKind.LANDLOCK, network=Network.NONE),
            Able(landlock=3, bwrap=False),
            SandboxKind.LANDLOCK,
            "cannot take it away",
        ),
        (
            box(SandboxKind.OFF, network=Network.NONE),
            EVERYTHING,
            SandboxKind.OFF,
            "has network access",
        ),
    ],
)
def test_less_than_was_wanted_comes_with_a_warning(
    wanted: Sandbox, able: Able, used: SandboxKind, warning: str | None
) -> None:
    sandbox, text = choose(wanted, able)
    assert sandbox.kind is used
    assert (text is None) == (warning is None)
    assert warning is None or warning in (text or "")


@pytest.mark.parametrize(
    ("version", "lacks"), [(0, 0), (1, 3), (2, 3), (3, 2), (4, 1), (5, 1), (6, 0), (7, 0)]
)
def test_a_kernel_says_what_its_landlock_cannot_take_away(version: int, lacks: int) -> None:
    missing = Able(landlock=version, bwrap=False).lacks()
    assert len(missing) == lacks
    assert not lacks or "signals to your other processes and abstract sockets" in missing


def test_bubblewrap_binds_what_is_writable_over_a_world_that_is_not() -> None:
    words = bwrap_prefix(box(SandboxKind.BWRAP, Path("/w s"), network=Network.NONE))
    assert words[:4] == ("bwrap", "--ro-bind", "/", "/")
    at = words.index("--bind-try")
    assert words[at : at + 3] == ("--bind-try", "/w s", "/w s")
    assert "--unshare-net" in words
    assert words[-1] == "--"


@pytest.mark.parametrize(
    ("able", "kind"),
    [
        (Able(landlock=6, bwrap=True), SandboxKind.LANDLOCK),
        (Able(landlock=0, bwrap=True), SandboxKind.BWRAP),
        (Able(landlock=0, bwrap=False), SandboxKind.OFF),
    ],
)
def test_on_means_the_best_sandbox_of_the_machine_and_a_warning_without_any(
    able: Able, kind: SandboxKind
) -> None:
    chosen, warning = choose(Sandbox(kind=SandboxKind.ON, writable=()), able)
    assert chosen.kind is kind
    assert (warning is not None) == (kind is SandboxKind.OFF)
