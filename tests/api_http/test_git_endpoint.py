"""`/git/<id>`: hosts fetch, and push one new candidate for each of their own open fences."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from typing import Any

import httpx
import pytest

from api_http.git_host import GitHost
from api_http.server_process import Server
from repositories import commit_all, git, write
from weft.git.http_backend import read_wants
from weft.model import NewRun, NewTask
from weft.store import Store
from weft.store.admission import admit_task
from weft.store.leases import release
from weft.store.limit_table import list_limits, list_stopped, set_limit
from weft.store.runs import cancel_run, submit_run
from weft.store.tasks import get_task
from weft.store.tokens import create_join_token, join_host, renew_host_token, revoke_token

LARGE = 24 << 20  # bytes
REQUEST = "application/x-git-upload-pack-request"


def test_a_host_fetches_and_pushes_the_candidate_of_its_fence_once(host: GitHost) -> None:
    assert host.git("ls-remote", host.url).returncode == 0
    done = host.push(f"HEAD:{host.ref}")
    assert done.returncode == 0, done.stderr
    first = host.find(host.ref)
    write(host.clone, work="y\n")
    commit_all(host.clone, "other work")
    assert host.push(f"+HEAD:{host.ref}").returncode != 0
    assert host.push(f":{host.ref}").returncode != 0
    assert host.find(host.ref) == first


@pytest.mark.parametrize(
    "ref",
    [
        "refs/heads/main",
        "refs/heads/weft/run",
        "refs/weft/candidates/{task}.2.{fence}",
        "refs/weft/candidates/{task}.1.99999",
        "refs/weft/candidates/0{task}.1.{fence}",
        "refs/weft/candidates/{task}.1.{fence}/more",
        "refs/weft/work/r/t/1",
    ],
)
def test_a_push_to_any_other_name_is_refused(host: GitHost, ref: str) -> None:
    before = git(host.server.root, "for-each-ref")
    assert host.push(f"HEAD:{ref.format(task=host.task, fence=host.fence)}").returncode != 0
    assert git(host.server.root, "for-each-ref") == before


def test_a_push_of_two_references_changes_none(host: GitHost) -> None:
    assert host.push(f"HEAD:{host.ref}", "HEAD:refs/heads/other").returncode != 0
    assert host.find(host.ref) == ""


def test_bad_objects_are_refused(host: GitHost) -> None:
    """A tree with `.git` in it could write into the repository of a person who checks it out."""
    blob = git(host.clone, "rev-parse", "HEAD:work").strip()
    tree = subprocess.run(
        ["git", "mktree"],
        cwd=host.clone,
        input=f"120000 blob {blob}\t.gitmodules\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    commit = git(host.clone, "commit-tree", "-m", "bad", tree).strip()
    done = host.push(f"{commit}:{host.ref}")
    assert done.returncode != 0
    assert host.find(host.ref) == ""


def test_a_fence_that_has_ended_and_a_fence_of_another_host_are_refused(
    host: GitHost, server: Server
) -> None:
    with server.open_store() as store:
        join, _ = create_join_token(store, name="h", uses=1, expires=None, now=time.time())
        _, other = join_host(store, join.id, "other", now=time.time())
        assert host.push(f"HEAD:{host.ref}", token=other).returncode != 0
        release(store, host.fence, now=time.time(), reason="over")
    assert host.push(f"HEAD:{host.ref}").returncode != 0
    assert host.find(host.ref) == ""


def test_only_tokens_of_hosts_reach_the_repository(host: GitHost, server: Server) -> None:
    for token in (*map(server.make_token, ("admin", "work", "read")), "nonsense"):
        assert host.git("ls-remote", host.url, token=token).returncode != 0
    other = f"{server.url}/git/{'0' * 32}"
    assert host.git("ls-remote", other).returncode != 0
    for path in ("config", "objects/info/packs", "HEAD", "../../etc/passwd", "info/refs"):
        answer = httpx.get(f"{host.url}/{path}", auth=("weft", host.token))
        assert answer.status_code == 404, path


def test_a_host_acts_for_its_own_workers_and_fences_alone(host: GitHost) -> None:
    worker = {"id": host.worker, "slots": 1, "host": host.name, "repos": [host.repository]}
    good = {**worker, "name": host.worker, "gates": False}
    assert host.call("workers.register", good, stated={}) == 200
    assert host.call("workers.heartbeat", host.worker) == 200
    assert host.call("leases.renew", [host.fence]) == 200
    for wrong in (
        {"id": "home-1-a", "name": "home-1-a"},
        {"host": "home"},
        {"repos": ["other"]},
        {"gates": True},
        {"labels": ["GPU"]},
        {"host_limits": {"gpu": 4}},
        {"agents": [{"name": "s", "source": "x", "max_concurrency": 9}]},
    ):
        assert host.call("workers.register", {**good, **wrong}, stated={}) in (403, 422), wrong
    assert host.call("workers.ask_to_leave", host.name, "", host.repository) == 200
    assert host.call("workers.ask_to_leave", "home", "", host.repository) == 403
    assert host.call("workers.ask_to_leave", host.name, "", "other") == 403
    assert host.call("workers.depart", "somebody-else") == 403
    assert host.call("admission.admit", "somebody-else") == 403
    for verb in ("gate.unblock_gate", "tasks.approve", "limit_table.set_limit", "runs.cancel_run"):
        assert host.call(verb, "x") in (403, 422), verb
    assert host.call("tokens.create_token", name="x", scopes=["admin"]) in (403, 422)


def test_a_host_makes_tokens_for_the_tools_of_its_own_attempts_alone(host: GitHost) -> None:
    right: dict[str, Any] = {"name": f"task {host.task}", "scopes": ["read"], "tenant": "default"}
    good = {**right, "fence": host.fence, "agents": []}
    assert host.call("tokens.create_token", **good) == 200
    for wrong in (
        {"scopes": ["admin"]},
        {"scopes": ["read", "work"]},
        {"tenant": None},
        {"tenant": "other"},
        {"agents": ["claude"], "scopes": ["read", "work"]},
        {"name": "task 99"},
        {"expires": 9e9},
        {"fence": None},
        {"fence": host.fence + 1},
    ):
        assert host.call("tokens.create_token", **{**good, **wrong}) in (403, 409, 410), wrong


def test_only_a_host_that_joined_with_the_right_takes_and_reports_checks(
    host: GitHost, server: Server
) -> None:
    now = time.time()
    with server.open_store() as store:
        join, _ = create_join_token(store, name="h", uses=1, expires=None, now=now, checks=True)
        token, secret = join_host(store, join.id, "near", now=now)
        renewed, _ = renew_host_token(store, token.id, now=now)
    assert token.scopes == renewed.scopes == {"read", "checks"}
    result = {"tree": "1" * 40, "passed": True, "seconds": 1, "output": "", "ran": 1}
    worker = {"id": host.worker, "slots": 1, "host": host.name, "repos": [host.repository]}
    new = {**worker, "name": host.worker, "gates": False, "checks": "Linux x86_64"}
    assert host.call("workers.register", new, stated={}) == 403
    assert host.call("check_orders.take_check", host.worker) == 403
    assert host.call("check_orders.report_check", host.fence, result) == 403
    assert host.call("check_orders.decline_check", host.fence, "no") == 403
    near = f"{token.worker}-1-a"
    own = {**new, "id": near, "name": near, "host": token.worker}
    assert host.call("workers.register", own, stated={}, token=secret) == 200
    assert host.call("check_orders.take_check", near, token=secret) == 200
    assert host.call("check_orders.take_check", host.worker, token=secret) == 403
    assert host.call("check_orders.report_check", host.fence, result, token=secret) == 403
    assert host.call("check_orders.order_check", 1, "r", {}, token=secret) in (403, 422)
    assert host.call("workers.depart", near, token=secret) == 200


def test_a_candidate_that_was_not_pushed_is_not_recorded(host: GitHost) -> None:
    commit = git(host.clone, "rev-parse", "HEAD").strip()
    outcome = {"state": "done", "candidate": commit, "base": commit}
    assert host.call("attempt_end.finish", host.fence, outcome) == 409
    failed = {**outcome, "state": "failed", "kind": "other"}
    assert host.call("attempt_end.finish", host.fence, failed) == 409, (
        "nor kept for the next attempt"
    )
    assert host.push(f"HEAD:{host.ref}").returncode == 0
    assert host.call("attempt_end.finish", host.fence, outcome) == 200


def test_a_host_sees_and_fetches_the_commits_of_its_own_orders_alone(host: GitHost) -> None:
    root = host.server.root
    tree = git(root, "rev-parse", "HEAD^{tree}").strip()
    private = git(root, "commit-tree", "-m", "private", tree).strip()
    hidden = ("refs/weft/archive/r/t/1/x", "refs/stash", "refs/heads/private", "refs/heads/weft/r")
    for ref in hidden:
        git(root, "update-ref", ref, private)
    try:
        listed = host.git("ls-remote", host.url)
        assert listed.returncode == 0, listed.stderr
        head = git(root, "symbolic-ref", "HEAD").strip()
        assert {line.split("\t")[1] for line in listed.stdout.splitlines()} == {"HEAD", head}
        for wanted in (*hidden, private, tree):
            for version in ("0", "2"):
                asked = ("-c", f"protocol.version={version}", "fetch", host.url, f"{wanted}:got")
                assert host.git(*asked).returncode != 0, (wanted, version)
        assert host.git("cat-file", "-e", private).returncode != 0
        assert host.git("fetch", host.url, "HEAD").returncode == 0
    finally:
        for ref in hidden:
            git(root, "update-ref", "-d", ref)


def submit_with_base(store: Store, host: GitHost, run: str, base: str) -> int:
    new = NewRun(id=run, repo=host.repository, base=base)
    return submit_run(store, new, [NewTask(name="a", files=("a",))], now=time.time())["a"]


def test_a_host_fetches_a_commit_while_its_lease_is_about_it(host: GitHost) -> None:
    root = host.server.root
    tree = git(root, "rev-parse", "HEAD^{tree}").strip()
    base = git(root, "commit-tree", "-m", "base", tree).strip()
    with host.server.open_store() as store:
        now = time.time()
        release(store, host.fence, now=now, reason="another task")
        task = submit_with_base(store, host, "far-run", base)
        asked = ("fetch", host.url, f"{base}:refs/heads/got")
        assert host.git(*asked).returncode != 0, "it has no lease of that run yet"
        assert admit_task(store, host.worker, task, now=now)
        done = host.git(*asked)
        assert done.returncode == 0, done.stderr
        cancel_run(store, "far-run", now=now)


def test_the_wants_of_a_request_are_read_as_git_reads_them() -> None:
    id = "a" * 40
    packet = f"0032want {id}\n".encode()
    assert len(packet) == 0x32
    assert read_wants(b"0011command=fetch0001" + packet + b"0009done\n0000") == {id}
    assert read_wants(b"0000" + packet.replace(b"0032", b"0032").upper().replace(b"WANT", b"want"))
    assert read_wants(packet + b"zzzz") is None
    assert read_wants(packet[:-3]) is None
    assert read_wants(b"000awant x") is None


def test_a_host_steers_its_own_task_alone_by_its_end(host: GitHost, server: Server) -> None:
    """Home derives the rest: agents are not stopped, limits not halved, stages and agents given."""
    stage = {"stage": "implement", "agent": "other", "demand": {}}
    hop = {"agent": "other", "note": "", "args": {}, "tree": "1" * 40}
    failed = {"state": "ready", "kind": "crash", "reason": "x"}
    for wrong in (
        {**failed, "then": stage},
        {**failed, "kind": "handed_over", "then": stage, "hop": hop},
        {**failed, "micro_usd": -5},
        {**failed, "tokens": -1},
        {**failed, "spent": {"usd:other": 5}},
        {**failed, "files": ["dir/**", "work", ".weft/agents/a.md"], "sent_back": True},
        {**failed, "files": ["weft.toml"]},
        {**failed, "asked": [".weft/**"]},
    ):
        assert host.call("attempt_end.finish", host.fence, wrong) == 409, wrong
    for path in (".weft/**", "weft.toml", "/weft.toml"):
        assert host.call("leases.extend", host.fence, [path]) == 409, path
    with server.open_store() as store:
        set_limit(store, "provider:anthropic", 8, now=time.time())
        before = list_limits(store, now=time.time())
        ended = {
            **failed,
            "stops_agent": "implement",
            "penalises": "anthropic",
            "state": "parked",
            "until": time.time() + 1e9,
        }
        assert host.call("attempt_end.finish", host.fence, ended) == 200
        task = get_task(store, host.task)
        assert task.until is not None
        assert task.until < time.time() + 10 * 86_400
        assert list_limits(store, now=time.time()) == before
        assert not list_stopped(store, now=time.time())


def test_a_revoked_host_is_refused_at_once_and_in_the_middle_of_a_fetch(
    host: GitHost, server: Server
) -> None:
    (host.clone / "noise").write_bytes(os.urandom(LARGE))
    base = commit_all(host.clone, "noise")
    git(server.root, "fetch", "-q", str(host.clone), f"{base}:refs/weft/noise")
    line = f"want {base}\n"
    body = f"0011command=fetch0001{len(line) + 4:04x}{line}0009done\n0000"
    with server.open_store() as store:
        release(store, host.fence, now=time.time(), reason="another task")
        task = submit_with_base(store, host, "large", base)
        assert admit_task(store, host.worker, task, now=time.time())
        got = 0
        with httpx.stream(
            "POST",
            f"{host.url}/git-upload-pack",
            content=body,
            auth=("weft", host.token),
            headers={"Git-Protocol": "version=2", "Content-Type": REQUEST},
        ) as answer:
            assert answer.status_code == 200
            with suppress(httpx.RemoteProtocolError, httpx.ReadError):
                for piece in answer.iter_raw(1 << 16):
                    if not got:
                        revoke_token(store, host.token_id, now=time.time())
                    got += len(piece)
                    time.sleep(0.05)  # a slow line: the rest would take much longer than a look
        assert host.git("ls-remote", host.url).returncode != 0
        cancel_run(store, "large", now=time.time())
        git(server.root, "update-ref", "-d", "refs/weft/noise")
    assert 0 < got < LARGE


def test_a_renewed_or_revoked_token_of_a_host_ends(host: GitHost, server: Server) -> None:
    now = time.time()
    with server.open_store() as store:
        token, secret = renew_host_token(store, host.token_id, now=now - 1000)
        assert token.worker == host.name
        assert host.call("workers.heartbeat", host.worker, token=secret) == 200
        revoke_token(store, token.id, now=now)
        assert host.call("workers.heartbeat", host.worker, token=secret) == 401


def test_a_join_token_is_good_for_joining_alone(server: Server) -> None:
    now = time.time()
    with server.open_store() as store:
        _, secret = create_join_token(store, name="h", uses=2, expires=now + 60, now=now)
    client = server.client(secret)
    client.refused(403, "GET", "/v1/tasks")
    client.refused(403, "POST", "/v1/verbs/workers.heartbeat", {"args": ["w"], "kwargs": {}})
    given = client.post("/v1/hosts", {"name": "far"})
    assert given["host"].startswith("far-")
    client.refused(422, "POST", "/v1/hosts", {"name": "../x"})
    assert client.post("/v1/hosts", {"name": "far"})["host"] != given["host"]
    client.refused(401, "POST", "/v1/hosts", {"name": "far"})


def test_a_push_larger_than_the_buffer_of_git_arrives(host: GitHost) -> None:
    (host.clone / "noise").write_bytes(os.urandom(3 << 20))
    commit_all(host.clone, "much work")
    done = host.push(f"HEAD:{host.ref}")
    assert done.returncode == 0, done.stderr
