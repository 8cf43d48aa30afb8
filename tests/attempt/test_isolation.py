"""What an agent gets to see and touch, and what weft notices of it."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from attempt.attempt_project import AttemptProject
from databases import postgres_later
from disk_directory import tmp_path as tmp_path
from repositories import content, git
from user_checkout import fingerprint
from weft.model import State
from weft.process import box
from weft.project.own_repository import get_repository
from weft.store.tokens import create_token


def test_secrets_reach_no_agent_that_does_not_ask_for_them(project: AttemptProject) -> None:
    secrets = {
        "PGPASSWORD": "s3cret-1",
        "WEFT_STORE": "s3cret-2",
        "AWS_SECRET": "s3cret-3",
        "SSH_AUTH_SOCK": "s3cret-4",
        "ASKED": "granted",
    }
    project.environment |= secrets
    project.shell("plain", "env > a; cat /proc/$PPID/environ >> a")
    project.shell("asking", "env > dir/b", front="env: [ASKED]\n")
    plain = project.submit(agent="plain", files=["a"])
    asking = project.submit(agent="asking", files=["dir/b"])
    project.serve()
    assert "s3cret" not in project.content(plain, "a")
    assert "ASKED" not in project.content(plain, "a")
    assert "ASKED=granted" in project.content(asking, "dir/b")
    assert "s3cret" not in project.content(asking, "dir/b")
    # Nor are they in what is kept beside the attempt.
    kept = [path for path in project.directory(plain).iterdir() if path.is_file()]
    assert all(b"s3cret" not in path.read_bytes() for path in kept)


def test_work_with_a_secret_of_wefts_in_it_is_blocked_and_no_candidate(
    project: AttemptProject,
) -> None:
    password = "Tr0ub4dor-and-3"
    project.environment |= {"WEFT_STORE": f"postgresql://weft:{password}@db/weft"}
    _, token = create_token(project.store, name="server", scopes=("admin",), now=time.time())
    project.shell("plain", f"echo url={password} > a")
    project.shell("named", f"echo x > dir/{password}")
    project.shell("linked", f"ln -s {password} dir/link")
    project.shell("token", f"head -c 1048570 /dev/zero > dir/t; printf '\"{token}\"' >> dir/t")
    project.shell("failing", f"echo {password} > dir/f; exit 3")
    leaks = [
        (project.submit(agent="plain", files=["a"]), "WEFT_STORE", " a,"),
        (project.submit(agent="named", files=["dir/T*"]), "WEFT_STORE", "dir/"),
        (project.submit(agent="linked", files=["dir/link"]), "WEFT_STORE", "dir/link"),
        (project.submit(agent="token", files=["dir/t"]), "token 'server'", "dir/t"),
    ]
    failing = project.submit(agent="failing", files=["dir/f"])
    project.serve()
    for task, name, file in leaks:
        assert project.state(task) is State.BLOCKED
        assert len(project.attempts(task)) == 1
        assert name in project.task(task).reason
        assert file in project.task(task).reason
    assert project.state(failing) is State.BLOCKED
    for task in (*(one for one, *_ in leaks), failing):
        assert [one.candidate for one in project.attempts(task) if one.candidate] == []
        assert password not in project.task(task).reason
        assert token not in project.task(task).reason
    branches = git(project.root, "for-each-ref", "--format=%(refname)", "refs/weft/work")
    assert branches == ""


def test_a_key_of_a_known_form_blocks_the_attempt(project: AttemptProject) -> None:
    keys = {
        "a GitHub token": "ghp_" + "a1B2c3D4e5" * 3 + "a1B2c3",
        "an AWS key": "AKIA" + "Q7" * 8,
        "a private key": "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1r\n" * 30,
    }
    tasks = {}
    for number, (name, key) in enumerate(keys.items()):
        (project.root.parent / f"key{number}").write_text(key)
        project.shell(f"leak{number}", f"cat {project.root.parent}/key{number} > dir/k{number}")
        tasks[name] = project.submit(agent=f"leak{number}", files=[f"dir/k{number}"])
    project.serve()
    for name, task in tasks.items():
        assert project.state(task) is State.BLOCKED
        assert name in project.task(task).reason


def test_settings_of_weft_change_only_by_a_task_that_names_them(project: AttemptProject) -> None:
    project.shell("sly", "echo new > a; mkdir -p .weft/agents; echo x > .weft/agents/sly.md")
    project.shell(
        "named", "echo '# more' >> weft.toml; mkdir -p .weft/agents; echo x > .weft/agents/other.md"
    )
    refused = [
        project.submit(agent="sly", files=["a"]),
        project.submit(agent="sly", files=["**"]),
    ]
    allowed = project.submit(agent="named", files=["weft.toml", ".weft/agents/*"])
    project.serve()
    for task in refused:
        assert project.state(task) is not State.DONE
        assert "settings of weft" in project.task(task).reason
        assert all(attempt.outcome == "scope" for attempt in project.attempts(task))
    assert project.state(allowed) is State.DONE, project.task(allowed).reason


def test_a_secret_that_the_base_had_already_does_not_block(project: AttemptProject) -> None:
    project.environment["APP_TOKEN"] = "public-sample-42"
    (project.root / "a").write_text("token: public-sample-42\n")
    git(project.root, "commit", "-qam", "sample")
    project.shell("plain", "echo more >> a")
    task = project.submit(agent="plain", files=["a"])
    project.serve()
    assert project.state(task) is State.DONE, project.task(task).reason


def test_a_prompt_is_never_a_command(project: AttemptProject, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    project.agent("argument", runs='[printf, "%s", "{prompt}"]')
    text = f"$(touch {trap}) `touch {trap}`; touch {trap} & 'touch {trap}'"
    task = project.submit(text=text, agent="argument", files=())
    project.serve()
    assert project.state(task) is State.DONE
    assert text in project.directory(task).joinpath("stdout").read_text()
    assert not trap.exists()


def test_what_is_the_users_stays_as_it_is(project: AttemptProject) -> None:
    (project.root / "a").write_text("edited by hand\n")
    (project.root / "dir/c").write_text("staged\n")
    git(project.root, "add", "dir/c")
    git(project.root, "branch", "mine")
    get_repository(project.root, project.store)  # which writes its id once
    before = fingerprint(project.root)
    project.submit("write a new", "commit mine", files=["a"])
    project.submit("write dir/c new", "attempt 1: crash KILL", files=["dir/c"])
    project.submit("write x new", "attempt 1: fail other", files=["x"])
    project.serve()
    assert fingerprint(project.root) == before


def test_ports_are_leased_and_distinct(project: AttemptProject) -> None:
    project.shell("ports", 'echo "$WEFT_PORT $WEFT_PORT_1 $WEFT_PORT_2" > "p$WEFT_TASK"; sleep 0.5')
    uses = {"host:@/port": 2}
    tasks = [project.submit(agent="ports", files=[f"pt{n}"], demand=uses) for n in (1, 2)]
    project.serve()
    seen = [project.content(task, f"pt{task}").split() for task in tasks]
    assert all(one[0] == one[1] for one in seen)
    ports = {int(port) for one in seen for port in one}
    assert ports == {21_000, 21_001, 21_002, 21_003}


def test_a_set_up_that_fails_blocks_visibly_and_leaves_nothing(project: AttemptProject) -> None:
    project.tune('[workspace]\nsetup = "echo no such library; exit 3"\n')
    task = project.submit("write a new")
    project.serve()
    assert project.state(task) is State.BLOCKED
    assert "no such library" in project.task(task).reason
    assert "3" in project.task(task).reason
    project.assert_nothing_left()


def test_a_set_up_may_take_longer_than_a_lease_and_than_t1(project: AttemptProject) -> None:
    project.retune(lease=0.4, gone_after=0.8)
    project.tune('[workspace]\nsetup = "sleep 1.5"\n', lease=0.4, gone_after=0.8)
    task = project.submit("write a new")
    project.serve()
    assert project.outcomes(task) == ["success"]


def _skip_without(kind: str) -> None:
    able = box.available()
    if not (able.landlock if kind == "landlock" else able.bwrap):
        pytest.skip(f"{kind} is not to be had on this machine")


KINDS = pytest.mark.parametrize("kind", ["landlock", "bwrap"])


@KINDS
def test_a_sandboxed_agent_reads_no_secret_of_weft_or_of_the_user(
    project: AttemptProject, kind: str
) -> None:
    _skip_without(kind)
    home = Path(project.environment["HOME"])
    project.environment |= {"TMPDIR": str(home / "tmp"), "WEFT_STORE": "postgresql://u:pass@h/d"}
    other = project.root / ".git" / "weft" / "attempts" / "other" / "7.1"
    secrets = [
        *(home / ".ssh/id", home / ".aws/credentials", home / ".config/gh/hosts.yml"),
        *(home / ".codex/auth.json", home / ".gemini/oauth_creds.json", home / ".claude.json"),
        *(home / ".mozilla/firefox/key4.db", home / "store/server.token", other / "stdout"),
        project.root / ".git" / "weft" / "server.token",
        project.root / ".git" / "config",
    ]
    # Nothing of home and of the checkout is there that no file opens, secret or not.
    secrets += [home / ".config/tool/settings", home / ".m2/settings.xml", project.root / "dir/b"]
    opened = [home / ".kube/config"]
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
    project.shell("curious", f": > a\n{reads}", front)
    task = project.submit(agent="curious", files=["a"])
    project.serve()
    assert project.state(task) is State.DONE, project.task(task).reason
    assert project.content(task, "a") == "first\n"


@KINDS
def test_a_sandboxed_agent_cannot_touch_the_repositorys_objects(
    project: AttemptProject, kind: str
) -> None:
    _skip_without(kind)
    common = project.root / ".git"
    before = git(project.root, "rev-list", "--objects", "--all")
    (project.root.parent / "tmp").mkdir()
    project.environment["TMPDIR"] = str(project.root.parent / "tmp")
    project.shell(
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
    task = project.submit(agent="vandal", files=["a", "dir/**"])

    def collect(_: object) -> None:
        """While the agent has commits of its own, the user's git is not disturbed."""
        root = project.root
        for place in root.parent.glob(f"{root.name}.weft/weft-*/ready"):
            git(project.root, "gc", "--quiet", "--force", "--prune=now")
            git(project.root, "fsck", "--strict")
            place.with_name("gone").touch()

    project.serve(during=collect)
    assert project.state(task) is State.DONE, project.task(task).reason
    assert project.content(task, "a") == "new\n"
    assert set(before.split()) <= set(git(project.root, "rev-list", "--objects", "--all").split())
    assert not (common / "objects" / "info" / "alternates").exists()
    # What it committed and staged is kept, and whole.
    kept = git(project.root, "for-each-ref", "--format=%(refname)", "refs/weft/archive").split()
    texts = {git(project.root, "show", f"{ref}:dir/{name}") for ref in kept for name in "bc"}
    assert {"other\n", "staged\n"} <= texts
    git(project.root, "fsck", "--strict")
    git(project.root, "gc", "--quiet", "--prune=now")


@pytest.mark.skipif(box.available().landlock == 0, reason="this kernel has no Landlock")
def test_a_sandboxed_agent_writes_in_its_workspace_alone(
    project: AttemptProject, tmp_path: Path
) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    project.environment["TMPDIR"] = str(tmp_path / "tmp")
    (tmp_path / "tmp").mkdir()
    project.shell(
        "fenced",
        f"echo x > {outside}/x; echo x > {project.root}/a; echo x > $TMPDIR/x && echo new > a\n"
        "git -c user.name=a -c user.email=a commit -qam own\n",
        front="sandbox: landlock\n",
    )
    task = project.submit(agent="fenced", files=["a"])
    project.serve()
    assert project.state(task) is State.DONE, project.task(task).reason
    assert list(outside.iterdir()) == []
    assert (project.root / "a").read_text() == "a\n"
    assert content(project.root, str(project.attempts(task)[0].candidate), "a") == "new\n"


HOOK = "[core]\\n\\thooksPath = /elsewhere\\n"
FAKE = """#!/bin/sh
# Writes where it is told, and says how it went, as the real program would.
{attempts}
echo new > a
said='{{"type":"result","subtype":"success","is_error":false,"result":"done"}}'
echo "$said"
"""


@pytest.mark.skipif(box.available().landlock == 0, reason="this kernel has no Landlock")
def test_a_sandboxed_agent_writes_what_is_its_own_and_nothing_else_of_the_users(
    project: AttemptProject, tmp_path: Path
) -> None:
    home = Path(project.environment["HOME"])
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
    project.environment["PATH"] = f"{program.parent}:{project.environment['PATH']}"
    project.environment["TMPDIR"] = str(home / "tmp")
    front = "sandbox:\n  kind: landlock\n  write: ~/named\n"
    project.agent("fenced", front, runs="claude")
    task = project.submit(agent="fenced", files=["a"])
    project.serve()
    assert project.state(task) is State.DONE, project.task(task).reason
    written = [name for name in others if _content(home / name) not in (None, "mine\n")]
    assert written == []
    assert [name for name in own if "hooksPath" not in (_content(home / name) or "")] == []


def _content(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def test_a_sandbox_that_is_not_to_be_had_is_warned_of(
    project: AttemptProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("git", "sh"):
        program = shutil.which(name)
        assert program is not None
        (programs / name).symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))  # without bwrap
    project.shell("fenced", "echo new > a", front="sandbox: bwrap\n")
    task = project.submit(agent="fenced", files=["a"])
    project.serve()
    [warning] = [
        event.data for event in project.events(task, "progress") if "warning" in event.data
    ]
    assert "without the box bwrap" in warning["warning"]


@pytest.mark.parametrize(
    "commands",
    [
        "yes '' | head -c 300000",  # empty lines
        "head -c 3000000 /dev/zero | tr '\\0' x; echo; head -c 1000000 /dev/zero",  # long ones
        r"printf '\377\376\000{\"type\":\n\355\240\200\n'",  # no text at all
    ],
)
@postgres_later
def test_odd_output_does_no_harm(either: AttemptProject, commands: str) -> None:
    either.shell("odd", f"{commands}\necho new > a\necho; echo told\n")
    task = either.submit(agent="odd", files=["a"])
    either.serve()
    assert either.state(task) is State.DONE, either.task(task).reason
    assert either.said(task)[-1] == "told"


def test_who_prints_without_end_is_ended(project: AttemptProject) -> None:
    project.tune(output=300_000)
    project.shell("flood", "echo half > a; yes")
    flood = project.submit(agent="flood", files=["a"])
    began = time.monotonic()
    calm = project.submit("write dir/b new", files=["dir/b"])
    project.serve()
    assert time.monotonic() - began < 60
    assert project.state(flood) is State.BLOCKED
    assert "printed more than it may" in project.task(flood).reason
    assert project.state(calm) is State.DONE
    project.assert_nothing_left()
