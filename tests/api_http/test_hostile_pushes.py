"""Pushes by a host that speaks git's protocol itself: refused ones leave nothing at home."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import socket
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import httpx
import pytest
from starlette.types import Message, Scope

from api_http.git_host import GitHost
from cases import each_case
from packs import make_pack, write_entry
from repositories import commit_all, git, write
from wait_until import wait_until
from weft import config
from weft.api.http.git_endpoint import GitEndpoint
from weft.api.http.guard import TOKEN
from weft.git.http_backend import read_push
from weft.git.objects import Object, TreeEntry, identify, make_commit
from weft.project.project import Project

ZERO = "0" * 40
SOME = "1" * 40
FLUSH = b"0000"
EMPTY = Object("tree", b"")
EMPTY_ID = identify(EMPTY, ZERO)
HALF = Object("tree", b"100644 a\0x")


def packet(line: bytes) -> bytes:
    return b"%04x%s" % (len(line) + 4, line)


def command(ref: str | bytes, new: str, old: str = ZERO) -> bytes:
    name = ref if isinstance(ref, bytes) else ref.encode()
    return packet(f"{old} {new} ".encode() + name + b"\0 report-status")


def commit_of(tree: str, *parents: str) -> Object:
    who = b"a <a@b> 1700000000 +0000"
    return make_commit(tree=tree, parents=parents, author=who, committer=who, message=b"m\n")


def with_tree(*entries: tuple[str, bytes]) -> list[Object]:
    """Make a commit whose tree has these modes and names, all of one blob."""
    blob = Object("blob", b"../../outside")
    id = identify(blob, ZERO)
    lines = b"".join(write_entry(name, TreeEntry(mode, id)) for mode, name in entries)
    tree = Object("tree", lines)
    return [blob, tree, commit_of(identify(tree, ZERO))]


def with_modules(text: bytes) -> list[Object]:
    blob = Object("blob", text)
    tree = Object("tree", write_entry(b".gitmodules", TreeEntry("100644", identify(blob, ZERO))))
    return [blob, tree, commit_of(identify(tree, ZERO))]


BAD_OBJECTS: dict[str, list[Object]] = {
    "a .git": with_tree(("100644", b".git")),
    "a .GIT": with_tree(("100644", b".GIT")),
    "git~1": with_tree(("100644", b"git~1")),
    "a hidden .git": with_tree(("100644", ".g\u200cit".encode())),
    "the parent": with_tree(("100644", b"..")),
    "a path": with_tree(("100644", b"a/b")),
    "an absolute path": with_tree(("100644", b"/etc/passwd")),
    "no name": with_tree(("100644", b"")),
    "twice": with_tree(("100644", b"a"), ("100644", b"a")),
    "unsorted": with_tree(("100644", b"b"), ("100644", b"a")),
    "a zero before the mode": with_tree(("0100644", b"a")),
    "a device": with_tree(("020644", b"a")),
    "rules by a link": with_tree(("120000", b".gitmodules")),
    "half a tree": [HALF, commit_of(identify(HALF, ZERO))],
    "a program as an address": with_modules(b'[submodule "x"]\n path = x\n url = --exec=x\n'),
    "a name that leaves": with_modules(b'[submodule "../x"]\n path = x\n url = https://x\n'),
    "a commit without a tree": [Object("commit", b"author a <a@b> 1 +0000\n\nm")],
    "a commit without an author": [EMPTY, Object("commit", f"tree {EMPTY_ID}\n\nm".encode())],
    "a commit of a missing tree": [commit_of(SOME)],
    "a missing parent": [EMPTY, commit_of(EMPTY_ID, SOME)],
}


def sealed(*parts: bytes) -> bytes:
    """Complete a pack of one object with its checksum."""
    body = b"PACK" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"".join(parts)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


GOOD = make_pack([EMPTY, commit_of(EMPTY_ID)])
GOOD_ID = identify(commit_of(EMPTY_ID), ZERO)
HUGE = b"\xff\xff\xff\xff\xff\xff\xff\x0f"  # a size of about 2^50 bytes

BAD_PACKS: dict[str, bytes] = {
    "no pack": b"",
    "text": b"hello" * 100,
    "a truncated pack": GOOD[:-25],
    "a wrong checksum": GOOD[:-1] + bytes([GOOD[-1] ^ 1]),
    "more objects than there are": GOOD[:8] + b"\xff\xff\xff\xff" + GOOD[12:],
    "a huge blob that is none": sealed(b"\xbf" + HUGE, zlib.compress(b"x")),
    "a huge commit that is none": sealed(b"\x9f" + HUGE, zlib.compress(b"x")),
    "a delta of an absent object": sealed(
        b"\x74" + bytes.fromhex(SOME), zlib.compress(b"\x01\x01\x01x")
    ),
    "a delta before the pack": sealed(b"\x64\x7f", zlib.compress(b"\x01\x01\x01x")),
    "more data than its size": sealed(b"\x31", zlib.compress(bytes(1 << 24))),
}


def files_of(root: Path) -> set[str]:
    return {str(path) for path in (root / ".git").rglob("*") if "weft/" not in str(path)}


def send(host: GitHost, body: bytes) -> httpx.Response:
    kind = "application/x-git-receive-pack-request"
    return httpx.post(
        f"{host.url}/git-receive-pack",
        content=body,
        headers={"content-type": kind},
        auth=("weft", host.token),
        timeout=60,
    )


@pytest.fixture
def unchanged(host: GitHost) -> Callable[[], None]:
    """Return an assertion that home has the references and files of now."""
    root = host.server.root
    before = git(root, "for-each-ref"), files_of(root)

    def check() -> None:
        assert git(root, "for-each-ref") == before[0]
        assert files_of(root) == before[1]

    return check


@pytest.mark.parametrize("name", BAD_OBJECTS)
def test_objects_that_git_would_not_make_are_refused(
    host: GitHost, unchanged: Callable[[], None], name: str
) -> None:
    objects = BAD_OBJECTS[name]
    new = identify(objects[-1], ZERO)
    answer = send(host, command(host.ref, new) + FLUSH + make_pack(objects))
    assert b"ok refs" not in answer.content, answer.content
    unchanged()


@pytest.mark.parametrize("name", BAD_PACKS)
def test_packs_that_git_would_not_make_are_refused(
    host: GitHost, unchanged: Callable[[], None], name: str
) -> None:
    answer = send(host, command(host.ref, GOOD_ID) + FLUSH + BAD_PACKS[name])
    assert b"ok refs" not in answer.content, answer.content
    unchanged()


def test_the_same_push_with_sound_objects_arrives(host: GitHost) -> None:
    """The tests above push nothing that is refused for another reason."""
    answer = send(host, command(host.ref, GOOD_ID) + FLUSH + GOOD)
    assert b"ok refs" in answer.content
    assert host.find(host.ref) == GOOD_ID


NAME = "refs/weft/candidates/7.1.9"


@each_case(
    "start",
    [
        b"",
        FLUSH,
        b"zzzz",
        b"0004",
        b"ffff" + b"x" * 100,
        command(NAME, SOME),  # without an end
        command(NAME, SOME) + command(NAME, SOME) + FLUSH,
        command(NAME, SOME) + packet(f"{ZERO} {SOME} refs/heads/x".encode()) + FLUSH,
        command(NAME, SOME, old=SOME) + FLUSH,
        command(NAME, ZERO) + FLUSH,
        command(NAME, ZERO, old=SOME) + FLUSH,
        command(NAME, SOME[:-1]) + FLUSH,
        command(NAME, "1" * 64) + FLUSH,
        command(NAME + "\n", SOME) + FLUSH,
        command(NAME + "\nrefs/heads/main", SOME) + FLUSH,
        command("refs/weft/candidates/../../heads/main", SOME) + FLUSH,
        command("refs/weft/candidates/7.1.9.lock", SOME) + FLUSH,
        command("refs/weft/candidates/7.1.-9", SOME) + FLUSH,
        command("refs/weft/candidates/7.1." + "9" * 40, SOME) + FLUSH,
        command("refs/weft/candidates/\u0667.1.9", SOME) + FLUSH,
        command(b"refs/weft/candidates/7.1.9\xff", SOME) + FLUSH,
        command(" " + NAME, SOME) + FLUSH,
        command("HEAD", SOME) + FLUSH,
        packet(f"{ZERO} {SOME} {NAME}".encode()) + FLUSH,  # without capabilities
        packet(f"shallow {SOME}".encode()) + command(NAME, SOME) + FLUSH,
        packet(b"push-cert\0 report-status") + FLUSH,
    ],
)
def test_only_a_push_of_one_new_candidate_is_read(start: bytes) -> None:
    assert read_push(start) is None


def test_the_push_of_one_new_candidate_is_read() -> None:
    read = read_push(command(NAME, SOME) + FLUSH + b"PACK")
    assert read is not None
    assert (read[0].ref, read[1]) == (NAME, SOME)


def test_a_push_of_a_thousand_references_creates_none(
    host: GitHost, unchanged: Callable[[], None]
) -> None:
    more = b"".join(
        packet(f"{ZERO} {GOOD_ID} refs/heads/many/{number}".encode()) for number in range(1000)
    )
    answer = send(host, command(host.ref, GOOD_ID) + more + FLUSH + GOOD)
    assert answer.status_code == 403
    unchanged()


def test_a_push_that_is_compressed_as_a_whole_is_refused(
    host: GitHost, unchanged: Callable[[], None]
) -> None:
    """git itself never does it, and the command would be read after unpacking alone."""
    answer = httpx.post(
        f"{host.url}/git-receive-pack",
        content=gzip.compress(command(host.ref, GOOD_ID) + FLUSH + GOOD),
        headers={"content-encoding": "gzip"},
        auth=("weft", host.token),
    )
    assert answer.status_code == 415
    unchanged()


def ask_for_head(host: GitHost, times: int) -> bytes:
    """Wish for HEAD many times in a request that is packed; return the answer."""
    head = git(host.server.root, "rev-parse", "HEAD").strip()
    wishes = packet(f"want {head}\n".encode()) * times
    answer = httpx.post(
        f"{host.url}/git-upload-pack",
        content=gzip.compress(
            packet(b"command=fetch") + b"0001" + wishes + packet(b"done\n") + FLUSH, 1
        ),
        headers={
            "content-encoding": "gzip",
            "content-type": "application/x-git-upload-pack-request",
            "git-protocol": "version=2",
        },
        auth=("weft", host.token),
        timeout=60,
    )
    return answer.content


def test_a_request_that_unpacks_to_more_than_its_bound_is_cut(host: GitHost) -> None:
    """A kilobyte of gzip stands for a megabyte of wishes."""
    assert b"PACK" in ask_for_head(host, 1000)
    assert b"PACK" not in ask_for_head(host, (5 << 20) // 50)


def test_a_push_that_breaks_off_leaves_nothing(
    host: GitHost, unchanged: Callable[[], None]
) -> None:
    address = urlsplit(host.server.url)
    body = command(host.ref, GOOD_ID) + FLUSH + GOOD
    secret = "Basic " + base64.b64encode(f"weft:{host.token}".encode()).decode()
    head = (
        f"POST /git/{host.repository}/git-receive-pack HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Authorization: {secret}\r\nContent-Length: {1 << 20}\r\n"
        "Content-Type: application/x-git-receive-pack-request\r\n\r\n"
    )
    for part in (b"", body[:10], body[:-10], body + b"\0" * 10_000):
        with socket.create_connection((address.hostname, address.port)) as connection:
            connection.sendall(head.encode() + part)
    objects = host.server.root / ".git" / "objects"
    wait_until(lambda: not list(objects.glob("tmp_*")) and not list(objects.glob("incoming-*")))
    unchanged()


def finish(host: GitHost, commit: str, base: str, **outcome: object) -> int:
    given = {"state": "done", "candidate": commit, "base": base, **outcome}
    return host.call("attempt_end.finish", host.fence, given)


def commit_change(host: GitHost, change: Callable[[Path], None]) -> tuple[str, str]:
    """Commit a change on the work of home; return the commit and its base."""
    base = git(host.server.root, "rev-parse", "HEAD").strip()
    git(host.clone, "reset", "-q", "--hard", base)
    change(host.clone)
    commit = commit_all(host.clone, "work")
    assert host.push(f"HEAD:{host.ref}").returncode == 0
    return commit, base


@pytest.mark.parametrize(
    "change",
    [
        lambda clone: write(clone, secret__rules="x"),
        lambda clone: (clone / "a").unlink(),
        lambda clone: (clone / "a").rename(clone / "dir" / "moved"),
        lambda clone: (clone / "dir" / "link").symlink_to("/etc/passwd"),
        lambda clone: (clone / "dir" / "link").symlink_to("../../../outside"),
        lambda clone: (clone / "dir" / "large").write_bytes(bytes(6 << 20)),
    ],
    ids=["outside", "deleted", "renamed", "absolute link", "link that leaves", "large"],
)
def test_home_records_no_work_that_a_worker_of_its_own_would_refuse(
    host: GitHost, change: Callable[[Path], None]
) -> None:
    commit, base = commit_change(host, change)
    assert finish(host, commit, base) == 409
    assert finish(host, commit, base, state="gating") == 409
    assert finish(host, commit, base, state="failed", kind="other") == 200, "it is kept"


def test_home_records_work_in_the_files_of_its_task(host: GitHost) -> None:
    commit, base = commit_change(host, lambda clone: write(clone, dir__new="x"))
    assert finish(host, commit, base) == 200


@pytest.mark.parametrize("base", [None, "--output=x", "HEAD:a b", SOME, "other"])
def test_a_base_that_is_not_under_the_candidate_is_refused(host: GitHost, base: str | None) -> None:
    commit, _ = commit_change(host, lambda clone: write(clone, dir__new="x"))
    if base == "other":
        base = git(host.server.root, "commit-tree", "-m", "other", "HEAD^{tree}").strip()
    assert finish(host, commit, base or "") in (409, 422)
    assert not (host.server.root / "x").exists()


def test_a_candidate_that_is_no_commit_is_not_recorded(host: GitHost) -> None:
    blob = Object("blob", b"x")
    id = identify(blob, ZERO)
    assert b"ok refs" in send(host, command(host.ref, id) + FLUSH + make_pack([blob])).content
    assert finish(host, id, id) == 409


@pytest.mark.parametrize("sent", [0, 20, None], ids=["nothing", "start", "much"])
def test_a_push_that_stops_coming_is_ended_and_leaves_nothing(
    host: GitHost, unchanged: Callable[[], None], sent: int | None
) -> None:
    many = GOOD[:8] + (1000).to_bytes(4, "big") + GOOD[12:-20]
    blob = b"\xb0\x80\x20" + zlib.compress(os.urandom(1 << 16), 0)[:8192]
    body = command(host.ref, GOOD_ID) + FLUSH + many + blob
    statuses: list[int] = []

    async def receive() -> Message:
        if pieces:
            return {"type": "http.request", "body": pieces.pop(), "more_body": True}
        await anyio.sleep_forever()
        raise AssertionError

    async def note(message: Message) -> None:
        statuses.append(message.get("status", 0))

    pieces = [body[:sent]]
    with host.server.open_store() as store:
        settings = config.parse("", {})
        project = Project(
            root=host.server.root, config=settings, environment={}, store_url=store.url
        )
        scope: Scope = {
            "path": f"/git/{host.repository}/git-receive-pack",
            "method": "POST",
            "query_string": b"",
            "headers": [(b"content-type", b"application/x-git-receive-pack-request")],
            "state": {TOKEN: host.token_id},
        }
        anyio.run(GitEndpoint(project, store, seconds=0.3), scope, receive, note)
    assert statuses[:1] in ([[], [200]] if sent is None else [[403]])
    unchanged()
