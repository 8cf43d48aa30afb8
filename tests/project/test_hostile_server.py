"""A hostile server makes a worker host write and run nothing but the work that it asked for."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from cases import each_case
from hostile_server import Answer, HostileAnswer, hostile_server
from packs import write_entry
from repositories import git, make_repository
from weft.errors import NoAnswer, WeftError
from weft.git.http_backend import CandidateName
from weft.git.mirror import HomeRemote, fetch, open_mirror, push, write_helper
from weft.git.objects import Object, TreeEntry, identify
from weft.model import Attempt, BranchMerge, Outcome, Run
from weft.project.worker_host import HostFiles, join
from weft.store.limit_table import identity
from weft.store.remote_calls import Unreadable, convert, hints_of
from weft.store.remote_store import RemoteStore
from weft.store.server_client import Server
from weft.workspace import branch_ref, prepare
from weft.workspace.setup import normalise

GOOD = {"host": "far-1", "repository": "0" * 32, "secret": "s", "expires": 1.0}


def files_below(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*") if not path.is_dir()}


def refuse_to_join(place: Path, answer: Answer) -> None:
    """Join a server; assert that it fails and leaves no file."""
    home = place / "home"
    home.mkdir()
    token = place / "join"
    token.write_text("secret-of-the-join")
    before = files_below(place)
    with hostile_server(answer) as server:
        files = HostFiles(server.url, {"HOME": str(home)})
        with pytest.raises(NoAnswer):
            join(server.url, token, files)
    assert files_below(place) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"repository": "../../../../outside"},
        {"repository": "/tmp/outside"},
        {"repository": "0" * 31 + "/"},
        {"repository": ""},
        {"host": "../far"},
        {"host": "far\n"},
        {"host": "-far"},
        {"secret": "a b"},
        {"secret": "line\nline"},
        {"secret": "x" * 1000},
    ],
)
def test_a_host_takes_no_names_that_leave_its_directories(
    tmp_path: Path, wrong: dict[str, str]
) -> None:
    body = json.dumps({**GOOD, **wrong}).encode()
    refuse_to_join(tmp_path, lambda request: request.send(201, body))


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"null"],
    ids=["empty", "list", "deep", "deeper", "no text", "null"],
)
def test_a_host_takes_no_answer_that_makes_no_sense(tmp_path: Path, body: bytes) -> None:
    refuse_to_join(tmp_path, lambda request: request.send(201, body))


def test_a_host_takes_no_answer_above_its_bound(tmp_path: Path) -> None:
    refuse_to_join(tmp_path, lambda request: request.send(201, b"{", Content_Length=str(1 << 40)))


def test_a_host_follows_no_redirection_with_its_token(tmp_path: Path) -> None:
    with hostile_server(lambda request: request.send(201, json.dumps(GOOD).encode())) as elsewhere:

        def redirect(request: HostileAnswer) -> None:
            request.send(307, b"", Location=f"{elsewhere.url}{request.path}")

        refuse_to_join(tmp_path, redirect)
        assert elsewhere.requests == []


def test_the_identity_of_a_store_is_no_path(tmp_path: Path) -> None:
    """It is part of the paths of attempts on a host."""
    for wrong in ("../../../../x", "/etc", "", "0" * 31 + "/"):
        body = json.dumps({"result": wrong}).encode()
        with (
            hostile_server(lambda request, body=body: request.send(200, body)) as server,  # type: ignore[misc]
            RemoteStore(Server(url=server.url, token="t")) as store,
            pytest.raises(NoAnswer),
        ):
            identity(store)


@each_case("id", ["--output=/tmp/x", "-x", "+a:b", "a:b", "a b", "^a", "a\n", "/x"])
def test_an_id_of_an_object_is_no_option_and_no_second_name(id: str) -> None:
    """Ids come from a server, and from hosts, and are arguments of git."""
    for kind, field in (
        (Outcome, "base"),
        (Outcome, "candidate"),
        (Attempt, "base"),
        (Attempt, "candidate"),
        (Run, "base"),
        (BranchMerge, "commit"),
        (BranchMerge, "trunk"),
    ):
        with pytest.raises(Unreadable):
            convert(id, hints_of(kind)[field])


class Home:
    """A mirror of a host, and the address of a server."""

    def __init__(self, place: Path, url: str) -> None:
        token = place / "token"
        token.write_text("secret-of-the-host")
        helper = place / "helper"
        write_helper(helper)
        self.remote = HomeRemote(url=f"{url}/git/{'0' * 32}", token_file=token, helper=helper)
        self.mirror = place / "mirror.git"
        open_mirror(self.mirror)

    def fetch(self, *specs: str) -> None:
        fetch(self.mirror, self.remote, specs)


def make_commit_of(repository: Path, *lines: str) -> str:
    """Commit a tree of these entries without git's checks, as HEAD."""
    blob = git(repository, "hash-object", "-w", "a").strip()
    rows = b"".join(
        f"{mode} {name}\0".encode() + bytes.fromhex(blob)
        for mode, name in (line.split(" ", 1) for line in lines)
    )
    file = repository / "tree"
    file.write_bytes(rows)
    tree = git(repository, "hash-object", "-t", "tree", "-w", "--literally", "tree").strip()
    file.unlink()
    commit = git(repository, "commit-tree", "-m", "hostile", tree).strip()
    git(repository, "update-ref", "HEAD", commit)
    return commit


def test_a_mirror_fetches_from_a_server_that_speaks_the_protocol(tmp_path: Path) -> None:
    """The servers below are refused for their hostility alone."""
    root = make_repository(tmp_path / "repository")
    with hostile_server(lambda request: request.serve_repository(root)) as server:
        home = Home(tmp_path, server.url)
        home.fetch()
    assert git(home.mirror, "rev-parse", "HEAD") == git(root, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    "entry", ["100644 .git", "100644 .GIT", "100644 ..", "120000 .gitmodules", "100644 a/b"]
)
def test_a_mirror_takes_no_objects_that_git_would_not_make(tmp_path: Path, entry: str) -> None:
    root = make_repository(tmp_path / "repository")
    commit = make_commit_of(root, entry)
    with hostile_server(lambda request: request.serve_repository(root)) as server:
        home = Home(tmp_path, server.url)
        with pytest.raises(NoAnswer):
            home.fetch()
    objects = git(home.mirror, "cat-file", "--batch-all-objects", "--batch-check")
    assert commit not in objects
    assert git(home.mirror, "for-each-ref") == ""


def test_a_mirror_takes_the_references_that_it_asks_for_alone(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repository")
    for name in ("refs/heads/other", "refs/replace/" + "1" * 40, "refs/weft/x", "refs/tags/t"):
        git(root, "update-ref", name, "HEAD")
    with hostile_server(lambda request: request.serve_repository(root)) as server:
        home = Home(tmp_path, server.url)
        home.fetch("+refs/heads/weft/r*:refs/heads/weft/r*")
    names = git(home.mirror, "for-each-ref", "--format=%(refname)").split()
    assert names == ["refs/weft/home/HEAD"]


@pytest.mark.parametrize("scheme", ["http", "file", "ext"])
def test_git_follows_no_redirection_with_the_token(tmp_path: Path, scheme: str) -> None:
    root = make_repository(tmp_path / "repository")
    marker = tmp_path / "marker"
    with hostile_server(lambda request: request.serve_repository(root)) as elsewhere:
        places = {
            "http": f"{elsewhere.url}/git/{'0' * 32}",
            "file": f"file://{root}",
            "ext": f"ext::touch {marker}",
        }

        def redirect(request: HostileAnswer) -> None:
            rest = request.path.split("/", 3)[3]
            request.send(302, b"", Location=f"{places[scheme]}/{rest}")

        with hostile_server(redirect) as server:
            home = Home(tmp_path, server.url)
            with pytest.raises(WeftError):
                home.fetch()
            git(home.mirror, "fetch", "-q", str(root), "HEAD:refs/heads/work")
            name = CandidateName(task=1, attempt=1, fence=1)
            with pytest.raises(WeftError):
                push(home.mirror, home.remote, "refs/heads/work", name.ref)
            assert server.requests
        assert elsewhere.requests == []
        assert not marker.exists()


def test_a_password_goes_to_the_server_that_asks_for_it_alone(tmp_path: Path) -> None:
    def ask(request: HostileAnswer) -> None:
        request.send(401, b"", WWW_Authenticate='Basic realm="x"')

    with hostile_server(ask) as server:
        home = Home(tmp_path, server.url)
        with pytest.raises(WeftError):
            home.fetch()
        shown = [head["Authorization"] for _, head in server.requests if "Authorization" in head]
    assert len(shown) >= 1
    for path in home.mirror.rglob("*"):
        assert not path.is_file() or b"secret-of-the-host" not in path.read_bytes()


@each_case("wrong", ["../x", "/etc", "a/../../b", ".git/hooks", "*"])
def test_paths_in_the_settings_of_home_stay_in_a_workspace(wrong: str) -> None:
    with pytest.raises(WeftError):
        normalise(wrong)


@pytest.mark.parametrize("name", [".git", ".GIT", "..", "d/../../x", "/x"])
def test_no_workspace_is_made_of_a_tree_that_leaves_it(tmp_path: Path, name: str) -> None:
    """A server without git's smart protocol could pass such objects on unchecked."""
    root = make_repository(tmp_path / "repository")
    commit = make_commit_of(root, f"100755 {name}")
    mirror = tmp_path / "mirror.git"
    open_mirror(mirror)
    git(mirror, "fetch", "-q", str(root), f"{commit}:refs/heads/x")
    before = files_below(tmp_path) | {str(mirror)}
    with pytest.raises(WeftError):
        prepare(mirror, branch_ref("r", "t", 1), commit)
    new = files_below(tmp_path) - before
    assert all(path.startswith(("mirror.git/", "mirror.git.weft/")) for path in new), new


def test_no_file_of_a_workspace_is_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = make_repository(tmp_path / "repository")
    blob = git(root, "hash-object", "-w", "a").strip()
    (root / "target").write_text("../" * 12 + str(outside)[1:])
    link = git(root, "hash-object", "-w", "target").strip()
    inner = Object("tree", write_entry(b"file", TreeEntry("100644", blob)))
    entries = write_entry(b"d", TreeEntry("120000", link)) + write_entry(
        b"d", TreeEntry("40000", identify(inner, blob))
    )
    for object in (inner, Object("tree", entries)):
        (root / "tree").write_bytes(object.content)
        git(root, "hash-object", "-t", "tree", "-w", "--literally", "tree")
    tree = identify(Object("tree", entries), blob)
    commit = git(root, "commit-tree", "-m", "hostile", tree).strip()
    with suppress(WeftError):
        prepare(root, branch_ref("r", "t", 1), commit)
    assert list(outside.iterdir()) == []
