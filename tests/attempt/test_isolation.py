"""What an agent gets to see and touch, and what weft notices of it."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from attempt.attempt_project import Ground
from databases import postgres_later
from disk_directory import tmp_path as tmp_path
from repositories import content, git
from weft.model import State
from weft.process import sandbox
from weft.store.tokens import create_token
from weft.workspace import fingerprint


def test_secrets_reach_no_agent_that_does_not_ask_for_them(ground: Ground) -> None:
    secrets = {
        "PGPASSWORD": "s3cret-1",
        "WEFT_STORE": "s3cret-2",
        "AWS_SECRET": "s3cret-3",
        "SSH_AUTH_SOCK": "s3cret-4",
        "ASKED": "granted",
    }
    ground.environment |= secrets
    ground.shell("plain", "env > a; cat /proc/$PPID/environ >> a")
    ground.shell("asking", "env > dir/b", front="env: [ASKED]\n")
    plain = ground.submit(agent="plain", files=["a"])
    asking = ground.submit(agent="asking", files=["dir/b"])
    ground.serve()
    assert "s3cret" not in ground.content(plain, "a")
    assert "ASKED" not in ground.content(plain, "a")
    assert "ASKED=granted" in ground.content(asking, "dir/b")
    assert "s3cret" not in ground.content(asking, "dir/b")
    # Nor are they in what is kept beside the attempt.
    kept = [path for path in ground.directory(plain).iterdir() if path.is_file()]
    assert all(b"s3cret" not in path.read_bytes() for path in kept)


def test_work_with_a_secret_of_wefts_in_it_is_blocked_and_no_candidate(ground: Ground) -> None:
    password = "Tr0ub4dor-and-3"
    ground.environment |= {"WEFT_STORE": f"postgresql://weft:{password}@db/weft"}
    _, token = create_token(ground.store, name="server", scopes=("admin",), now=time.time())
    ground.shell("plain", f"echo url={password} > a")
    ground.shell("named", f"echo x > dir/{password}")
    ground.shell("linked", f"ln -s {password} dir/link")
    ground.shell("token", f"head -c 1048570 /dev/zero > dir/t; printf '\"{token}\"' >> dir/t")
    ground.shell("failing", f"echo {password} > dir/f; exit 3")
    leaks = [
        (ground.submit(agent="plain", files=["a"]), "WEFT_STORE", " a,"),
        (ground.submit(agent="named", files=["dir/T*"]), "WEFT_STORE", "dir/"),
        (ground.submit(agent="linked", files=["dir/link"]), "WEFT_STORE", "dir/link"),
        (ground.submit(agent="token", files=["dir/t"]), "token 'server'", "dir/t"),
    ]
    failing = ground.submit(agent="failing", files=["dir/f"])
    ground.serve()
    for task, name, file in leaks:
        assert ground.state(task) is State.BLOCKED
        assert len(ground.attempts(task)) == 1
        assert name in ground.task(task).reason
        assert file in ground.task(task).reason
    assert ground.state(failing) is State.BLOCKED
    for task in (*(one for one, *_ in leaks), failing):
        assert [one.candidate for one in ground.attempts(task) if one.candidate] == []
        assert password not in ground.task(task).reason
        assert token not in ground.task(task).reason
    branches = git(ground.root, "for-each-ref", "--format=%(refname)", "refs/heads/weft-work")
    assert branches == ""


def test_a_secret_that_the_base_had_already_does_not_block(ground: Ground) -> None:
    ground.environment["APP_TOKEN"] = "public-sample-42"
    (ground.root / "a").write_text("token: public-sample-42\n")
    git(ground.root, "commit", "-qam", "sample")
    ground.shell("plain", "echo more >> a")
    task = ground.submit(agent="plain", files=["a"])
    ground.serve()
    assert ground.state(task) is State.DONE, ground.task(task).reason


def test_a_prompt_is_never_a_command(ground: Ground, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    ground.agent("argument", runs='[printf, "%s", "{prompt}"]')
    text = f"$(touch {trap}) `touch {trap}`; touch {trap} & 'touch {trap}'"
    task = ground.submit(text=text, agent="argument", files=())
    ground.serve()
    assert ground.state(task) is State.DONE
    assert text in ground.directory(task).joinpath("stdout").read_text()
    assert not trap.exists()


def test_what_is_the_users_stays_as_it_is(ground: Ground) -> None:
    (ground.root / "a").write_text("edited by hand\n")
    (ground.root / "dir/c").write_text("staged\n")
    git(ground.root, "add", "dir/c")
    git(ground.root, "branch", "mine")
    before = fingerprint(ground.root)
    tasks = [
        ground.submit("write a new", "commit mine", files=["a"]),
        ground.submit("write dir/c new", "attempt 1: crash KILL", files=["dir/c"]),
        ground.submit("write x new", "attempt 1: fail other", files=["x"]),
    ]
    ground.serve()
    assert fingerprint(ground.root) == before
    assert all(not ground.events(task, "surroundings_changed") for task in tasks)


def test_who_reaches_for_what_is_the_users_is_told_of(ground: Ground) -> None:
    root = ground.root
    ground.shell(
        "grabbing",
        f"git -C {root} config weft.owned yes\ngit -C {root} branch owned\n"
        f"echo owned > {root}/dir/b\necho exit 1 > {root}/.git/hooks/pre-commit\necho new > a\n",
    )
    task = ground.submit(agent="grabbing", files=["a"])
    ground.serve()
    assert ground.state(task) is State.DONE
    [event] = ground.events(task, "surroundings_changed")
    told = " ".join(event.data["changes"])
    for what in ("config", "refs/heads/owned", "dir/b", "pre-commit"):
        assert what in told


def test_ports_are_leased_and_distinct(ground: Ground) -> None:
    ground.shell("ports", 'echo "$WEFT_PORT $WEFT_PORT_1 $WEFT_PORT_2" > "p$WEFT_TASK"; sleep 0.5')
    uses = {"host:@/port": 2}
    tasks = [ground.submit(agent="ports", files=[f"pt{n}"], demand=uses) for n in (1, 2)]
    ground.serve()
    seen = [ground.content(task, f"pt{task}").split() for task in tasks]
    assert all(one[0] == one[1] for one in seen)
    ports = {int(port) for one in seen for port in one}
    assert ports == {21_000, 21_001, 21_002, 21_003}


def test_a_set_up_that_fails_blocks_visibly_and_leaves_nothing(ground: Ground) -> None:
    ground.tune('[workspace]\nsetup = "echo no such library; exit 3"\n')
    task = ground.submit("write a new")
    ground.serve()
    assert ground.state(task) is State.BLOCKED
    assert "no such library" in ground.task(task).reason
    assert "3" in ground.task(task).reason
    ground.assert_nothing_left()


def test_a_set_up_may_take_longer_than_a_lease_and_than_t1(ground: Ground) -> None:
    ground.retune(lease=0.4, gone_after=0.8)
    ground.tune('[workspace]\nsetup = "sleep 1.5"\n', lease=0.4, gone_after=0.8)
    task = ground.submit("write a new")
    ground.serve()
    assert ground.outcomes(task) == ["success"]


def _skip_without(kind: str) -> None:
    able = sandbox.available()
    if not (able.landlock if kind == "landlock" else able.bwrap):
        pytest.skip(f"{kind} is not to be had on this machine")


KINDS = pytest.mark.parametrize("kind", ["landlock", "bwrap"])


@KINDS
def test_a_sandboxed_agent_reads_no_secret_of_weft_or_of_the_user(
    ground: Ground, kind: str
) -> None:
    _skip_without(kind)
    home = Path(ground.environment["HOME"])
    ground.environment |= {"TMPDIR": str(home / "tmp"), "WEFT_STORE": "postgresql://u:pass@h/d"}
    other = ground.root / ".git" / "weft" / "attempts" / "other" / "7.1"
    secrets = [
        *(home / ".ssh/id", home / ".aws/credentials", home / ".config/gh/hosts.yml"),
        *(home / ".codex/auth.json", home / ".gemini/oauth_creds.json", home / ".claude.json"),
        *(home / ".mozilla/firefox/key4.db", home / "store/server.token", other / "stdout"),
        ground.root / ".git" / "weft" / "server.token",
        ground.root / ".git" / "config",
    ]
    opened = [home / ".kube/config", home / ".config/tool/settings", ground.root / "dir/b"]
    for path in (*secrets, *opened):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text("s3cret\n")
    (home / "tmp").mkdir()
    reads = "".join(f"test -s {path} && cat {path} && echo {path} >> a\n" for path in secrets)
    reads += "".join(f"cat {path} > /dev/null || echo {path} >> a\n" for path in opened)
    reads += f"test -s {home}/store/weft.db && cat {home}/store/weft.db && echo store >> a\n"
    reads += f"tr '\\0' '\\n' < /proc/{os.getpid()}/environ && echo environ >> a\n"
    reads += "git log -1 --format=%s >> a || exit 1\n"
    front = f"sandbox:\n  kind: {kind}\n  read: ~/.kube\n"
    ground.shell("curious", f": > a\n{reads}", front)
    task = ground.submit(agent="curious", files=["a"])
    ground.serve()
    assert ground.state(task) is State.DONE, ground.task(task).reason
    assert ground.content(task, "a") == "first\n"


@KINDS
def test_a_sandboxed_agent_cannot_touch_the_repositorys_objects(ground: Ground, kind: str) -> None:
    _skip_without(kind)
    common = ground.root / ".git"
    before = git(ground.root, "rev-list", "--objects", "--all")
    (ground.root.parent / "tmp").mkdir()
    ground.environment["TMPDIR"] = str(ground.root.parent / "tmp")
    ground.shell(
        "vandal",
        "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b\n"
        "export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n"
        "echo new > a && git commit -qam one || exit 1\n"
        "git checkout -qb other && echo other > dir/b && git commit -qam two || exit 1\n"
        "git checkout -q - || exit 1\n"
        "echo staged > dir/c && git add dir/c && echo last > dir/c || exit 1\n"
        f"rm -rf {common}/objects/* {common}/refs/* {common}/HEAD\n"
        f"mkdir -p {common}/objects/info; echo /elsewhere > {common}/objects/info/alternates\n"
        f"mv {common}/objects {common}/gone\n"
        "touch ready; while ! test -e gone; do sleep 0.05; done; rm ready gone; true\n",
        front=f"sandbox: {kind}\n",
    )
    task = ground.submit(agent="vandal", files=["a", "dir/**"])

    def collect(_: object) -> None:
        """While the agent has commits of its own, the user's git is not disturbed."""
        for place in common.glob("weft/workspaces/*/weft-*/ready"):
            git(ground.root, "gc", "--quiet", "--force", "--prune=now")
            git(ground.root, "fsck", "--strict")
            place.with_name("gone").touch()

    ground.serve(during=collect)
    assert ground.state(task) is State.DONE, ground.task(task).reason
    assert ground.content(task, "a") == "new\n"
    assert set(before.split()) <= set(git(ground.root, "rev-list", "--objects", "--all").split())
    assert not (common / "objects" / "info" / "alternates").exists()
    # What it committed and staged is kept, and whole.
    kept = git(ground.root, "for-each-ref", "--format=%(refname)", "refs/weft/archive").split()
    texts = {git(ground.root, "show", f"{ref}:dir/{name}") for ref in kept for name in "bc"}
    assert {"other\n", "staged\n"} <= texts
    git(ground.root, "fsck", "--strict")
    git(ground.root, "gc", "--quiet", "--prune=now")


@pytest.mark.skipif(sandbox.available().landlock == 0, reason="this kernel has no Landlock")
def test_a_sandboxed_agent_writes_in_its_workspace_alone(ground: Ground, tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    ground.environment["TMPDIR"] = str(tmp_path / "tmp")
    (tmp_path / "tmp").mkdir()
    ground.shell(
        "fenced",
        f"echo x > {outside}/x; echo x > {ground.root}/a; echo x > $TMPDIR/x && echo new > a\n"
        "git -c user.name=a -c user.email=a commit -qam own\n",
        front="sandbox: landlock\n",
    )
    task = ground.submit(agent="fenced", files=["a"])
    ground.serve()
    assert ground.state(task) is State.DONE, ground.task(task).reason
    assert list(outside.iterdir()) == []
    assert (ground.root / "a").read_text() == "a\n"
    assert content(ground.root, str(ground.attempts(task)[0].candidate), "a") == "new\n"


HOOK = "[core]\\n\\thooksPath = /elsewhere\\n"
FAKE = """#!/bin/sh
# Writes where it is told, and says how it went, as the real program would.
{attempts}
echo new > a
said='{{"type":"result","subtype":"success","is_error":false,"result":"done"}}'
echo "$said"
"""


@pytest.mark.skipif(sandbox.available().landlock == 0, reason="this kernel has no Landlock")
def test_a_sandboxed_agent_writes_what_is_its_own_and_nothing_else_of_the_users(
    ground: Ground, tmp_path: Path
) -> None:
    home = Path(ground.environment["HOME"])
    for name in (".config/git", ".codex", ".config/opencode", ".cache/pip", ".local/share", "tmp"):
        (home / name).mkdir(parents=True)
    for name in (".bashrc", ".config/git/config", ".claude.json", ".codex/config.toml"):
        (home / name).write_text("mine\n")
    others = [
        ".config/git/config",
        ".config/git/ignore",
        ".config/new",
        ".bashrc",
        ".claude.json.new",
        ".codex/config.toml",
        ".config/opencode/opencode.json",
        ".cache/pip/x",
        ".local/share/x",
    ]
    own = [".claude/settings.json", ".claude.json", ".local/state/claude/x", "named/x"]
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    writes = (f"printf '{HOOK}' > {home / name}" for name in (*others, *own))
    program.write_text(FAKE.format(attempts="\n".join(writes)))
    program.chmod(0o755)
    ground.environment["PATH"] = f"{program.parent}:{ground.environment['PATH']}"
    ground.environment["TMPDIR"] = str(home / "tmp")
    front = "sandbox:\n  kind: landlock\n  write: ~/named\n"
    ground.agent("fenced", front, runs="claude")
    task = ground.submit(agent="fenced", files=["a"])
    ground.serve()
    assert ground.state(task) is State.DONE, ground.task(task).reason
    written = [name for name in others if _content(home / name) not in (None, "mine\n")]
    assert written == []
    assert [name for name in own if "hooksPath" not in (_content(home / name) or "")] == []


def _content(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def test_a_sandbox_that_is_not_to_be_had_is_warned_of(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("git", "sh"):
        program = shutil.which(name)
        assert program is not None
        (programs / name).symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))  # without bwrap
    ground.shell("fenced", "echo new > a", front="sandbox: bwrap\n")
    task = ground.submit(agent="fenced", files=["a"])
    ground.serve()
    [warning] = [event.data for event in ground.events(task, "progress") if "warning" in event.data]
    assert "without the sandbox bwrap" in warning["warning"]


@pytest.mark.parametrize(
    "commands",
    [
        "yes '' | head -c 300000",  # empty lines
        "head -c 3000000 /dev/zero | tr '\\0' x; echo; head -c 1000000 /dev/zero",  # long ones
        r"printf '\377\376\000{\"type\":\n\355\240\200\n'",  # no text at all
    ],
)
@postgres_later
def test_odd_output_does_no_harm(either: Ground, commands: str) -> None:
    either.shell("odd", f"{commands}\necho new > a\necho; echo told\n")
    task = either.submit(agent="odd", files=["a"])
    either.serve()
    assert either.state(task) is State.DONE, either.task(task).reason
    assert either.said(task)[-1] == "told"


def test_who_prints_without_end_is_ended(ground: Ground) -> None:
    ground.tune(output=300_000)
    ground.shell("flood", "echo half > a; yes")
    flood = ground.submit(agent="flood", files=["a"])
    began = time.monotonic()
    calm = ground.submit("write dir/b new", files=["dir/b"])
    ground.serve()
    assert time.monotonic() - began < 60
    assert ground.state(flood) is State.BLOCKED
    assert "printed more than it may" in ground.task(flood).reason
    assert ground.state(calm) is State.DONE
    ground.assert_nothing_left()
