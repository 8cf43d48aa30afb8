"""The files, processes and network that a program reaches in a box of each kind.

`PROBES` is a table of attacks. Each runs in every kind of box that this machine has, and must fail
in the kinds that its row names; without a box it must succeed, or it would prove nothing.
"""

from __future__ import annotations

import ctypes
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest

from disk_directory import tmp_path as tmp_path
from process.supervision import Stage
from wait_until import wait_until
from weft.config import BoxKind, WorkspaceSettings
from weft.process import attempt_files, cgroup
from weft.process.agent_process import Spawn
from weft.process.box import (
    Able,
    Box,
    Container,
    available,
    choose,
    enclose,
    is_scoped,
    remove_command,
)
from weft.process.tool_chains import find_tool_chains
from weft.workspace.setup import name_container, tear_down
from weft.workspace.workspace_records import Record, Terms, WorkspacePhase, WorkspacePool

IMAGE = "weft-test-box"
ENGINE = ("podman", "--runtime", "runc")
OPTIONS = ("--ulimit", "nofile=1000:1000", "--ulimit", "nproc=1000:1000")
KINDS = pytest.mark.parametrize("kind", [BoxKind.BWRAP, BoxKind.CONTAINER, BoxKind.LANDLOCK])
ALL = {BoxKind.BWRAP, BoxKind.CONTAINER, BoxKind.LANDLOCK}
NAMESPACES = {BoxKind.BWRAP, BoxKind.CONTAINER}


@pytest.fixture(scope="session")
def container() -> Container:
    """A container of this machine's own system files, which needs no registry."""
    if shutil.which("podman") is None or shutil.which("runc") is None:
        pytest.skip("podman and runc are not installed")
    if os.geteuid() != 0:
        pytest.skip("a container without root needs subordinate ids")
    wanted = Container(engine=ENGINE, image=IMAGE, options=OPTIONS)
    known = subprocess.run(["podman", "image", "exists", IMAGE], check=False).returncode == 0
    if not known:
        _import_image()
    return wanted


def _import_image() -> None:
    """Import an image with busybox alone: programs of this machine are mounted into it."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed")
    with subprocess.Popen(["podman", "import", "-", IMAGE], stdin=subprocess.PIPE) as importer:
        assert importer.stdin is not None
        with tarfile.open(fileobj=importer.stdin, mode="w|") as image:
            image.add(busybox, "bin/busybox")
            for name in ("sh", "sleep", "true"):
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                image.addfile(link)
    assert importer.returncode == 0


SYSTEM = tuple(map(Path, ("/usr", "/lib", "/lib64")))
PYTHON = (Path(sys.base_prefix), Path(sys.prefix))


def make_box(
    request: pytest.FixtureRequest,
    kind: BoxKind,
    *writable: Path,
    network: bool = True,
    hidden: tuple[Path, ...] = (),
    readable: tuple[Path, ...] = (),
    scratch: Path | None = None,
) -> Box:
    """Make a box of a kind, or skip the test where this machine has none."""
    made = request.getfixturevalue("container") if kind is BoxKind.CONTAINER else None
    if available(made).resolve(kind) is BoxKind.OFF and kind is not BoxKind.OFF:
        pytest.skip(f"{kind} is not to be had on this machine")
    system = SYSTEM if kind is BoxKind.CONTAINER else ()
    return Box(
        kind=kind,
        writable=writable,
        readable=(*system, *PYTHON, *readable),
        hidden=hidden,
        network=network,
        scratch=scratch,
        container=made,
    )


def enter(box: Box, spawn: Spawn) -> Spawn:
    name = f"weft-{spawn.marker}"
    argv, variables = enclose(box, spawn.argv, spawn.environment, cwd=spawn.cwd, name=name)
    return replace(
        spawn,
        argv=argv,
        environment=variables,
        scoped=is_scoped(box),
        undo=remove_command(box, name),
    )


def run_boxed(
    stage: Stage, box: Box, program: str, home: Path | None = None, user: int | None = None
) -> str:
    """Run a Python program in a box; return its output."""
    # This interpreter may be in the home of root.
    python = "/usr/bin/python3" if user == ORDINARY else sys.executable
    spawn = stage.spawn(python, "-S", "-c", program, stage.token)
    variables = dict(spawn.environment) | ({} if home is None else {"HOME": str(home)})
    place = box.writable[0] if box.writable else spawn.cwd
    spawn = replace(spawn, environment=variables, cwd=place)
    spawn = enter(box, spawn)
    spawn = replace(spawn, argv=(*(become(user) if user is not None else ()), *spawn.argv))
    ended = anyio.run(stage.start(spawn).wait_ended)
    assert ended.code == 0, (stage.directory / attempt_files.STDERR).read_text() + ended.unstarted
    return stage.output()


PROBES: dict[str, tuple[str, set[BoxKind]]] = {
    # name: (a statement that raises unless the attack succeeds, the kinds in which it must fail)
    "read a key in home": ("open(HOME + '/.ssh/id').read()[0]", ALL),
    "read a file of another project": ("open(OUTSIDE + '/file').read()[0]", ALL),
    "write a file outside": ("open(OUTSIDE + '/file', 'w').write('x')", ALL),
    "make a file outside": ("open(OUTSIDE + '/new', 'w').write('x')", ALL),
    "empty a file outside": ("os.truncate(OUTSIDE + '/file', 0)", ALL),
    "delete a file outside": ("os.unlink(OUTSIDE + '/file')", ALL),
    "write through a link": (
        "os.path.lexists('way') or os.symlink(OUTSIDE, 'way'); open('way/new', 'w')",
        ALL,
    ),
    "read through the root of a process": ("open('/proc/self/root' + OUTSIDE + '/file')", ALL),
    "read the environment of weft": ("open(f'/proc/{WEFT}/environ', 'rb').read()[0]", ALL),
    "signal weft": ("os.kill(WEFT, 0)", ALL),
    "read shadow passwords": ("open('/etc/shadow').read()[0]", ALL),
    "write a system directory": ("open('/usr/lib/weft-probe', 'w')", ALL),
    "connect to an abstract socket": ("unix(ABSTRACT)", ALL),
    "connect to a socket in /tmp": ("unix(SOCKET)", NAMESPACES),
    "change the mode of a file": ("os.chmod(OUTSIDE + '/file', 0o777)", NAMESPACES),
    "change the time of a file": ("os.utime(OUTSIDE + '/file', (1, 1))", NAMESPACES),
    "change the owner of a file": ("os.chown(OUTSIDE + '/file', *OWNER)", NAMESPACES),
    "change an attribute of a file": (
        "os.setxattr(OUTSIDE + '/file', 'user.x', b'y')",
        NAMESPACES,
    ),
    "read the limits of weft": (
        "import resource; resource.prlimit(WEFT, resource.RLIMIT_NOFILE)",
        NAMESPACES,
    ),
    "change the limits of weft": (
        "import resource; resource.prlimit(WEFT, resource.RLIMIT_CORE, (0, 0))",
        NAMESPACES,
    ),
    "connect to a terminal multiplexer": ("unix(MULTIPLEXER)", NAMESPACES),
    "queue a message": ("queue(QUEUE)", NAMESPACES),
    "open a terminal of the user": ("os.close(os.open(TERMINAL, os.O_WRONLY))", NAMESPACES),
    "attach shared memory": ("attach(SEGMENT)", NAMESPACES),
    "open shared memory by name": ("open('/dev/shm/' + SHARED, 'r+b').write(b'x')", ALL),
    "write a kernel setting": ("open('/proc/sys/kernel/core_pattern', 'r+')", ALL),
}

NETWORK_PROBES = {
    "connect by TCP": "socket.create_connection(TCP, 5)",
    "connect by TCP Fast Open": "fast_open()",
    "connect by MPTCP": "stream(262).connect(TCP)",
    "send by UDP": "send_udp()",
    "listen where others connect": "listen()",
}

PRELUDE = """
import ctypes, os, socket, sys
def unix(name):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(name)
def attach(segment):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    if libc.shmat(segment, None, 0) == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "shmat")
def stream(protocol=0):
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
def fast_open():
    if stream().sendto(b"x", socket.MSG_FASTOPEN, TCP) != 1:
        raise OSError
def queue(number):
    libc = ctypes.CDLL(None, use_errno=True)
    message = ctypes.create_string_buffer(bytes([1, *15 * [0]]))
    if libc.msgsnd(number, message, 1, 0) < 0:
        raise OSError(ctypes.get_errno(), "msgsnd")
def listen():
    server = socket.create_server(("127.0.0.1", 0))
    with open("port.half", "w") as file:
        file.write(str(server.getsockname()[1]))
    os.rename("port.half", "port")
    server.settimeout(3)
    server.accept()
def send_udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(1)
        sender.sendto(b"x", UDP)
        sender.recv(1)
def probe(name, text):
    try:
        exec(text, globals())
    except (OSError, ValueError, IndexError):
        return
    print("REACHED", name, flush=True)
"""


ROOT, ORDINARY = 0, 54_321
"""Users that attack: an ordinary one needs no entry in the system's list of users."""


def become(user: int) -> tuple[str, ...]:
    """Return the words that start a program as another user."""
    if user == os.geteuid():
        return ()
    ids = (f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all")
    return ("setpriv", *ids, "--bounding-set=-all", "--")


@pytest.fixture
def user(request: pytest.FixtureRequest, tmp_path: Path) -> int:
    """The user of the attacks and their targets; without a parameter this one."""
    asked: int | None = getattr(request, "param", None)
    if asked is None or asked == os.geteuid():
        return os.geteuid()
    if os.geteuid() != ROOT:
        pytest.skip("only root can become another user")
    tmp_path.chmod(0o755)
    return asked


@pytest.fixture
def outside(tmp_path: Path, user: int) -> Iterator[dict[str, object]]:
    """Things of the user's that attacks aim at."""
    place, home = tmp_path / "outside", tmp_path / "home"
    place.mkdir()
    (place / "file").write_text("kept")
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("key")
    libc = ctypes.CDLL(None)
    segment = libc.shmget(0, 4096, 0o666 | 0o1000)
    queue = libc.msgget(0, 0o666 | 0o1000)
    shared = Path("/dev/shm") / f"weft-probe-{os.getpid()}"
    shared.write_text("kept")
    short = Path(f"/tmp/weft-probe-{os.getpid()}")
    with ExitStack() as stack:
        stack.callback(libc.shmctl, segment, 0, None)
        stack.callback(libc.msgctl, queue, 0, None)
        stack.callback(shared.unlink, missing_ok=True)
        stack.callback(short.unlink, missing_ok=True)
        multiplexer = Path(stack.enter_context(TemporaryDirectory(dir="/tmp"))) / "default"
        for name in (str(short), str(multiplexer), f"\0weft-probe-{os.getpid()}"):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(name)
            server.listen()
        leader, follower = pty.openpty()
        stack.callback(os.close, leader)
        stack.callback(os.close, follower)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        weft = stack.enter_context(subprocess.Popen([*become(user), "sleep", "600"]))
        stack.callback(weft.kill)
        terminal = os.ttyname(follower)
        targets: tuple[Path, ...] = (
            place,
            *place.rglob("*"),
            home,
            *home.rglob("*"),
            shared,
            short,
        )
        for path in (*targets, multiplexer, multiplexer.parent, Path(terminal)):
            os.chown(path, user, user)
        yield {
            "OUTSIDE": str(place),
            "HOME": str(home),
            "WEFT": weft.pid,
            "OWNER": (user, user),
            "MULTIPLEXER": str(multiplexer),
            "QUEUE": queue,
            "ABSTRACT": f"\0weft-probe-{os.getpid()}",
            "SOCKET": str(short),
            "TERMINAL": terminal,
            "SEGMENT": segment,
            "SHARED": shared.name,
            "TCP": tcp.getsockname(),
        }


def reached(output: str) -> set[str]:
    lines = [line for line in output.splitlines() if line.startswith("REACHED ")]
    return {line.removeprefix("REACHED ") for line in lines}


def write_probes(values: dict[str, object], probes: dict[str, str]) -> str:
    given = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    return (
        PRELUDE + given + "".join(f"probe({name!r}, {text!r})\n" for name, text in probes.items())
    )


@pytest.mark.parametrize(
    ("kind", "user"),
    [
        *((kind, ROOT) for kind in [BoxKind.OFF, *sorted(ALL)]),
        *((kind, ORDINARY) for kind in (BoxKind.OFF, BoxKind.BWRAP, BoxKind.LANDLOCK)),
    ],
    indirect=["user"],
)
def test_no_attack_of_the_table_leaves_the_box(
    stage: Stage,
    tmp_path: Path,
    outside: dict[str, object],
    kind: BoxKind,
    user: int,
    request: pytest.FixtureRequest,
) -> None:
    workspace, scratch = tmp_path / "workspace", tmp_path / "scratch"
    for place in (workspace, scratch):
        place.mkdir()
        os.chown(place, user, user)
    box = make_box(request, kind, workspace, scratch=scratch)
    if user == ORDINARY:
        box = replace(box, readable=())
    probes = {name: text for name, (text, _) in PROBES.items()}
    if kind is BoxKind.OFF:  # these would harm this machine, or its user may not do them anyway
        for name in ("write a system directory", "write a kernel setting", "read shadow passwords"):
            del probes[name]
        # the last that deletes comes last
        probes["delete a file outside"] = probes.pop("delete a file outside")
    program = write_probes(outside, probes)
    output = run_boxed(stage, box, program, Path(str(outside["HOME"])), user)
    if kind is BoxKind.OFF:
        assert probes.keys() - reached(output) == set()
        return
    must_fail = {name for name, (_, kinds) in PROBES.items() if kind in kinds}
    assert reached(output) & must_fail == set()
    assert (Path(str(outside["OUTSIDE"])) / "file").read_text() == "kept"


@pytest.mark.parametrize("kind", sorted(NAMESPACES))
def test_a_box_without_network_reaches_no_address(
    stage: Stage,
    tmp_path: Path,
    outside: dict[str, object],
    kind: BoxKind,
    request: pytest.FixtureRequest,
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        outside["UDP"] = udp.getsockname()
        box = make_box(request, kind, tmp_path, network=False)
        with ThreadPoolExecutor(1) as threads:
            threads.submit(connect_to_listener, tmp_path)
            output = run_boxed(stage, box, write_probes(outside, NETWORK_PROBES))
        assert reached(output) == set()
        udp.setblocking(False)
        with pytest.raises(BlockingIOError):
            udp.recv(1)
        opened = Stage(tmp_path / "open", stage.launcher)
        names = {"connect by TCP", "listen where others connect"}
        probes = write_probes(outside, {name: NETWORK_PROBES[name] for name in names})
        box = make_box(request, kind, tmp_path, network=True)
        (tmp_path / "port").unlink()
        with ThreadPoolExecutor(1) as threads:
            threads.submit(connect_to_listener, tmp_path)
            assert reached(run_boxed(opened, box, probes)) == names


def connect_to_listener(place: Path) -> None:
    """Connect to the port that a boxed program announced, as another program would."""
    wait_until((place / "port").exists)
    with socket.socket() as client, suppress(ConnectionRefusedError):
        client.connect(("127.0.0.1", int((place / "port").read_text())))


@KINDS
def test_a_program_in_a_box_works_in_its_workspace_and_temporary_directory(
    stage: Stage, tmp_path: Path, kind: BoxKind, request: pytest.FixtureRequest
) -> None:
    workspace, scratch = tmp_path / "workspace", tmp_path / "scratch"
    workspace.mkdir()
    scratch.mkdir()
    program = """
import os, tempfile
open("new", "w").write("x")
os.mkdir("sub")
os.rename("new", "sub/moved")
open("/dev/null", "w").write("x")
handle, name = tempfile.mkstemp()
os.write(handle, b"x")
"""
    run_boxed(stage, make_box(request, kind, workspace, scratch=scratch), program)
    assert (workspace / "sub" / "moved").read_text() == "x"
    assert [path.read_text() for path in scratch.rglob("tmp*") if path.is_file()] == ["x"]


@pytest.mark.parametrize("kind", [BoxKind.BWRAP, BoxKind.LANDLOCK])
def test_hidden_places_are_not_read_and_their_neighbours_are(
    stage: Stage, tmp_path: Path, kind: BoxKind, request: pytest.FixtureRequest
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
    secret = [f"{home}/{name}" for name in ("keys/id", ".config/tool/auth", "token", "linked/id")]
    secret += [f"{home}/way/id", f"/proc/self/root{home}/keys/id"]
    opened = [f"{home}/{name}" for name in ("near", "keys/open/id", "keys/box/deep/id")]
    opened += [f"{home}/.config/other/auth", "/etc/passwd", sys.executable]
    program = f"""
def is_read(path):
    try:
        return bool(open(path, "rb").read())  # an empty file has been put over some
    except OSError:
        return False
assert not [path for path in {secret!r} if is_read(path)]
assert not [path for path in {opened!r} if not is_read(path)]
"""
    box = make_box(
        request,
        kind,
        home / "keys" / "box",
        hidden=tuple(home / name for name in hidden),
        readable=(home, home / "keys" / "open"),
    )
    run_boxed(stage, box, program)


@KINDS
def test_a_boxed_program_ends_to_the_last_process(
    stage: Stage, tmp_path: Path, kind: BoxKind, request: pytest.FixtureRequest
) -> None:
    program = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
signal.signal(signal.SIGTERM, lambda *_: (print("asked", flush=True), time.sleep(0.05), exit(3)))
print("ready", flush=True)
time.sleep(600)
"""
    spawn = stage.spawn(sys.executable, "-S", "-c", program, stage.token)
    spawn = replace(enter(make_box(request, kind, tmp_path), spawn), grace=5.0)
    running = stage.start_ready(spawn)
    anyio.run(running.stop)
    assert stage.living() == []
    assert stage.output().count("asked") == 1
    assert list_containers(spawn) == []


def list_containers(spawn: Spawn) -> list[str]:
    if not spawn.undo:
        return []
    asked = ["podman", "ps", "--all", "--quiet", "--filter", f"name={spawn.undo[-1]}"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()


def test_a_container_ends_although_its_wrapper_and_client_were_killed(
    stage: Stage, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    program = "import time; print('ready', flush=True); time.sleep(600)"
    spawn = stage.spawn(sys.executable, "-S", "-c", program, stage.token)
    spawn = enter(make_box(request, BoxKind.CONTAINER, tmp_path), spawn)
    running = stage.start_ready(spawn)
    assert list_containers(spawn) != []
    for process in (stage.wrapper(), stage.agent()):
        process.kill()
    anyio.run(running.stop)
    assert list_containers(spawn) == []
    assert stage.living() == []


def test_the_container_of_a_set_up_ends_although_its_weft_was_killed(
    stage: Stage, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    slot = WorkspacePool(common=tmp_path).slot(1)
    slot.directory.mkdir(parents=True)
    slot.write_record(Record(phase=WorkspacePhase.READY))
    box, name = make_box(request, BoxKind.CONTAINER, tmp_path), name_container(slot)
    argv, variables = enclose(box, ["sleep", "600"], os.environ, cwd=tmp_path, name=name)
    spawn = replace(stage.spawn("true"), undo=remove_command(box, name))
    with subprocess.Popen(argv, env=variables) as client:
        wait_until(lambda: list_containers(spawn))
        client.kill()
    assert list_containers(spawn) != [], "it outlives its client"
    terms = Terms(rules=WorkspaceSettings(setup=("true",)), box=box, environment=os.environ)
    tear_down(slot, terms)
    assert list_containers(spawn) == []


@pytest.mark.parametrize(
    ("wanted", "able", "used", "warning"),
    [
        (BoxKind.ON, Able(landlock=7, bwrap=True), BoxKind.BWRAP, ""),
        (BoxKind.ON, Able(landlock=7, bwrap=False), BoxKind.LANDLOCK, ""),
        (BoxKind.ON, Able(landlock=0, bwrap=False), BoxKind.OFF, "without a box"),
        (
            BoxKind.ON,
            Able(landlock=7, bwrap=False, container=Container(engine=("podman",), image="x")),
            BoxKind.CONTAINER,
            "",
        ),
        (BoxKind.LANDLOCK, Able(landlock=7, bwrap=True), BoxKind.LANDLOCK, ""),
        (BoxKind.LANDLOCK, Able(landlock=0, bwrap=True), BoxKind.OFF, "no Landlock"),
        (BoxKind.BWRAP, Able(landlock=7, bwrap=False), BoxKind.OFF, "not installed"),
        (BoxKind.CONTAINER, Able(landlock=7, bwrap=True), BoxKind.OFF, "image"),
        (BoxKind.OFF, Able(landlock=7, bwrap=True), BoxKind.OFF, ""),
    ],
)
def test_on_means_the_best_box_and_less_than_was_wanted_comes_with_a_warning(
    wanted: BoxKind, able: Able, used: BoxKind, warning: str
) -> None:
    chosen, text = choose(Box(kind=wanted), able)
    assert chosen.kind is used
    assert (warning in text) if text else not warning


def test_landlock_says_that_it_leaves_the_network_open() -> None:
    able = Able(landlock=7, bwrap=False)
    assert "network access" in (choose(Box(kind=BoxKind.ON, network=False), able)[1] or "")
    assert "files only" in able.lacks(BoxKind.LANDLOCK)


def test_a_box_says_that_it_leaves_abstract_sockets_open() -> None:
    docker = Container(engine=("docker",), image="x")
    for able, kind in (
        (Able(landlock=5, bwrap=True), BoxKind.BWRAP),
        (Able(landlock=7, bwrap=True, container=docker), BoxKind.CONTAINER),
    ):
        assert "abstract sockets" in able.lacks(kind)


def install(path: Path, text: str = "#!/bin/sh\necho here\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_programs_are_found_wherever_people_install_them(tmp_path: Path) -> None:
    home, share = tmp_path / "home", tmp_path / "home" / ".local" / "share"
    binary = home / ".local" / "bin"
    binary.mkdir(parents=True)
    for name in ("claude/versions/2/claude", "pipx/venvs/aider/bin/aider"):
        (binary / Path(name).name).symlink_to(install(share / name))
    node = install(home / ".nvm/versions/node/v20/bin/node")
    (binary / "hop").symlink_to(tmp_path / "opt" / "hop")
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt" / "hop").symlink_to(install(tmp_path / "cellar" / "hop" / "bin" / "hop"))
    install(home / ".cargo" / "bin" / "rg")
    (home / ".ssh").mkdir()
    path = f"{binary}:{node.parent}:{home}/.cargo/bin:{tmp_path}/loose/bin:relative/bin"
    places = find_tool_chains({"HOME": str(home), "PATH": path}, ["agent"])
    expected = {
        *(binary, share / "claude", share / "pipx", home / ".nvm", home / ".cargo"),
        *(tmp_path / "opt", tmp_path / "cellar" / "hop"),
    }
    assert set(places) == expected


HUNGRY = """
import os
print(int(open("/proc/self/oom_score_adj").read()), flush=True)
try:
    held = bytearray(400 << 20)
except MemoryError:
    print("no memory")
"""


@pytest.mark.parametrize("kind", sorted(ALL))
def test_memory_is_bounded_and_agents_end_before_weft(
    stage: Stage, tmp_path: Path, kind: BoxKind, request: pytest.FixtureRequest
) -> None:
    box = replace(make_box(request, kind, tmp_path), memory=200 << 20)
    spawn = enter(box, stage.spawn(sys.executable, "-S", "-c", HUNGRY, stage.token))
    ended = anyio.run(stage.start(spawn).wait_ended)
    score, *words = stage.output().split(maxsplit=1)
    own = int(Path("/proc/self/oom_score_adj").read_text())
    assert int(score) > own
    # A bound of a process is an error that it sees; a bound of a control group ends it.
    assert words == ["no memory\n"] or ended.code == 137 or ended.signal == signal.SIGKILL
    assert stage.living() == []


FORKING = """
import os, time
count = 0
try:
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(600)
        count += 1
except OSError:
    print("refused", flush=True)
"""


@pytest.mark.parametrize(
    ("kind", "user"),
    [(BoxKind.BWRAP, ORDINARY), (BoxKind.LANDLOCK, ORDINARY), (BoxKind.CONTAINER, ROOT)],
    indirect=["user"],
)
def test_processes_are_bounded(
    stage: Stage, tmp_path: Path, kind: BoxKind, user: int, request: pytest.FixtureRequest
) -> None:
    place = tmp_path / "workspace"
    place.mkdir()
    os.chown(place, user, user)
    box = replace(make_box(request, kind, place), processes=60)
    box = replace(box, readable=()) if user == ORDINARY else box
    assert "refused" in run_boxed(stage, box, FORKING, user=user)
    assert stage.living() == []


def test_a_control_group_gets_the_bounds_of_its_agent(tmp_path: Path) -> None:
    for name in ("memory.max", "pids.max"):
        (tmp_path / name).write_text("max")  # a real one forgets the former text
    cgroup.bound(str(tmp_path), 1 << 30, 64)
    assert (tmp_path / "memory.max").read_text() == "1073741824"
    assert (tmp_path / "pids.max").read_text() == "64x"
