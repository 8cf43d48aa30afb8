from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from repositories import commit_all, content, git, make_candidate, make_repository, prepare, write
from weft import workspace
from weft.errors import InputError
from weft.workspace import Unkeepable, branch_ref, changes, release
from weft.workspace.filters import refuse_filters

needs_lfs = pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
POINTER = "version https://git-lfs.github.com/spec/v1\n"
BINARY = os.urandom(5_000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a file in LFS."""
    root = make_repository(tmp_path / "repository")
    git(root, "lfs", "install", "--local")
    git(root, "lfs", "track", "*.bin")
    (root / "old.bin").write_bytes(BINARY)
    commit_all(root)
    assert content(root, "HEAD", "old.bin").startswith(POINTER)
    return root


@needs_lfs
def test_an_agent_sees_a_file_in_lfs_and_it_lands_as_a_pointer(root: Path) -> None:
    for attempt in (1, 2):  # made, and used again
        place = prepare(root, attempt=attempt)
        assert (place.path / "old.bin").read_bytes() == BINARY
        assert changes(place).paths == ()
        (place.path / "new.bin").write_bytes(BINARY + b"new")
        (place.path / "old.bin").write_bytes(BINARY + b"changed")
        assert changes(place).paths == ("new.bin", "old.bin")
        made = make_candidate(place)
        assert content(root, made, "new.bin").startswith(POINTER)
        assert content(root, made, "old.bin").startswith(POINTER)
        release(place)
    git(root, "checkout", "-q", "--detach", made)
    assert (root / "new.bin").read_bytes() == BINARY + b"new"


@needs_lfs
def test_a_raw_file_never_lands_for_a_path_in_lfs(root: Path) -> None:
    with prepare(root) as place:
        write(place.path, **{".gitattributes": "", "a": "x\n"})
        (place.path / "old.bin").write_bytes(BINARY + b"changed")
        with pytest.raises(Unkeepable, match=r"old\.bin is kept in LFS and would land as it is"):
            changes(place)


@pytest.fixture
def asked() -> Iterator[tuple[int, list[str]]]:
    """The port of a server that has nothing, and what it was asked for."""
    paths: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            paths.append(self.path)
            self.send_error(404)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server.server_port, paths
        server.shutdown()
        serving.join()


@needs_lfs
def test_an_object_that_is_not_here_stays_a_pointer_and_nothing_is_fetched(
    root: Path, asked: tuple[int, list[str]]
) -> None:
    port, paths = asked
    write(root, **{".lfsconfig": f"[lfs]\n\turl = http://127.0.0.1:{port}/nowhere\n"})
    commit_all(root)
    shutil.rmtree(root / ".git" / "lfs" / "objects")
    with prepare(root) as place:
        assert (place.path / "old.bin").read_text().startswith(POINTER)
        assert changes(place).paths == ()
    assert paths == []


def test_lfs_without_git_lfs_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_repository(tmp_path / "repository")
    write(root, **{".gitattributes": "*.bin filter=lfs\n", "x.bin": POINTER})
    commit_all(root)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(InputError, match=r"x\.bin is kept in LFS.*Install git-lfs"):
        refuse_filters(root)


def test_a_filter_of_the_users_is_refused_by_name(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repository")
    write(root, **{".gitattributes": "secret filter=hide\n", "secret": "x\n"})
    commit_all(root)
    refuse_filters(root)  # git itself does nothing with it
    git(root, "config", "filter.hide.clean", "rev")
    with pytest.raises(InputError, match=r"secret goes through the filter 'hide'"):
        refuse_filters(root)


@pytest.mark.parametrize("cone", ["--cone", "--no-cone"])
@pytest.mark.parametrize("claim", ["far/file", "far/*", "far/**", "**"])
def test_claimed_paths_are_brought_into_a_sparse_checkout(
    tmp_path: Path, cone: str, claim: str
) -> None:
    root = make_repository(tmp_path / "repository")
    write(root, near__file="near\n", far__file="far\n", away__file="away\n")
    commit_all(root)
    git(root, "sparse-checkout", "set", cone, "near")
    assert not (root / "far").exists()
    branch = branch_ref("r", "t", 1)
    with workspace.prepare(root, branch, "HEAD", claims=[claim]) as place:
        assert (place.path / "near" / "file").read_text() == "near\n"
        assert (place.path / "far" / "file").read_text() == "far\n"
        assert (place.path / "away").exists() == (claim == "**")
        assert changes(place).paths == ()
        write(place.path, far__file="changed\n")
        assert changes(place).paths == ("far/file",)
        assert content(root, make_candidate(place), "away/file") == "away\n"
        if claim != "**":
            write(place.path, away__file="replaced\n")
            with pytest.raises(Unkeepable, match="away/file lies outside the sparse checkout"):
                changes(place)
