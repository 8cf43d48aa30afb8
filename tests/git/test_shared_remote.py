"""The remote that home and hosts share: home publishes, hosts push candidates once."""

from __future__ import annotations

from pathlib import Path

import pytest

from repositories import commit_all, git, write
from weft.errors import InputError, NoAnswer
from weft.git.mirror import fetch, open_mirror, push
from weft.git.shared_remote import RemotePublisher, SharedRemote, list_homes

ID = "a" * 32
CANDIDATE = "refs/weft/candidates/1.1.7"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    root = tmp_path / "home"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    write(root, a="1\n")
    commit_all(root, "first")
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    return root


@pytest.fixture
def remote(home: Path) -> SharedRemote:
    return SharedRemote(url=str(home.parent / "remote.git"), repository=ID)


def list_there(remote: SharedRemote) -> dict[str, str]:
    lines = git(Path(remote.url), "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return {name: commit for name, _, commit in (line.partition(" ") for line in lines)}


def tip(root: Path) -> str:
    return git(root, "rev-parse", "HEAD").strip()


def test_home_publishes_its_references_and_removes_what_is_over(
    home: Path, remote: SharedRemote
) -> None:
    first = tip(home)
    for ref in ("refs/heads/weft/r", "refs/weft/work/r/1/1", "refs/weft/archive/x"):
        git(home, "update-ref", ref, first)
    RemotePublisher(home, remote).publish()
    place = f"refs/weft/home/{ID}"
    assert list_there(remote) == {
        f"{place}/HEAD": first,
        f"{place}/heads/weft/r": first,
        f"{place}/weft/work/r/1/1": first,
    }
    assert list_homes(home, remote.url) == [ID]
    git(home, "update-ref", "-d", "refs/weft/work/r/1/1")
    write(home, a="2\n")
    commit_all(home, "second")
    RemotePublisher(home, remote).publish()  # of another process: it asks the remote first
    assert list_there(remote) == {f"{place}/HEAD": tip(home), f"{place}/heads/weft/r": first}


def test_two_homes_on_a_remote_leave_each_other_alone(home: Path, remote: SharedRemote) -> None:
    other = SharedRemote(url=remote.url, repository="b" * 32)
    for publisher in (RemotePublisher(home, remote), RemotePublisher(home, other)):
        publisher.publish()
    assert list_homes(home, remote.url) == [ID, "b" * 32]


def test_a_mirror_gets_the_head_of_home(home: Path, remote: SharedRemote) -> None:
    RemotePublisher(home, remote).publish()
    mirror = home.parent / "mirror.git"
    open_mirror(mirror)
    fetch(mirror, remote, [])
    assert tip(mirror) == tip(home)


def test_a_candidate_is_created_and_never_replaced(home: Path, remote: SharedRemote) -> None:
    first = tip(home)
    push(home, remote, first, CANDIDATE)
    push(home, remote, first, CANDIDATE)  # the answer was lost
    write(home, a="2\n")
    commit_all(home, "later, which would be a fast-forward")
    with pytest.raises(NoAnswer):
        push(home, remote, tip(home), CANDIDATE)
    assert list_there(remote) == {CANDIDATE: first}


def test_a_candidate_goes_from_the_remote_once_home_has_put_it_away(
    home: Path, remote: SharedRemote
) -> None:
    push(home, remote, tip(home), CANDIDATE)
    publisher = RemotePublisher(home, remote)
    publisher.publish()
    publisher.fetch_candidates()
    publisher.publish()
    assert CANDIDATE in list_there(remote), "home still has its reference"
    git(home, "update-ref", "-d", CANDIDATE)
    publisher.publish()
    assert CANDIDATE not in list_there(remote)


def test_a_remote_that_cannot_be_reached_is_named_without_its_password(home: Path) -> None:
    remote = SharedRemote(url="https://me:secret@127.0.0.1:9/x.git", repository=ID)
    publisher = RemotePublisher(home, remote)
    for call in (publisher.publish, publisher.fetch_candidates):
        with pytest.raises(NoAnswer, match=r"127\.0\.0\.1:9") as error:
            call()
        assert "secret" not in str(error.value)


@pytest.mark.parametrize("url", ["--upload-pack=touch x", "a\nb"])
def test_an_option_is_no_remote(url: str) -> None:
    with pytest.raises(InputError):
        SharedRemote(url=url, repository=ID)


def test_a_remote_that_runs_a_program_is_refused(home: Path) -> None:
    remote = SharedRemote(url=f"ext::sh -c touch% {home}/ran", repository=ID)
    with pytest.raises(NoAnswer):
        RemotePublisher(home, remote).publish()
    assert not (home / "ran").exists()
