"""The boxes of a project: its credentials, its devcontainer.json, its programs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from disk_directory import tmp_path as tmp_path
from weft.config import BoxKind, Config, SandboxSettings
from weft.errors import InputError
from weft.process.box import Box, available, choose, enclose
from weft.process.tool_chains import find_tool_chains
from weft.project.boxes import describe_box, find_container, find_hidden, read_devcontainer

CREDENTIALS = (
    *(".ssh/id_ed25519", ".gnupg/private-keys-v1.d/k", ".netrc", ".password-store/k.gpg"),
    *(".local/share/keyrings/login.keyring", ".vault-token", ".pgpass", ".my.cnf"),
    *(".config/op/config", ".config/Bitwarden/data.json", ".config/rclone/rclone.conf"),
    *(".aws/credentials", ".azure/msal_token_cache.json", ".boto", ".s3cfg", ".oci/config"),
    *(".kube/config", ".docker/config.json", ".terraform.d/credentials.tfrc.json", ".terraformrc"),
    *(".fly/config.yml", ".netlify/config.json", ".wrangler/config/default.toml"),
    *(".config/gcloud/credentials.db", ".config/doctl/config.yaml", ".config/heroku/token"),
    *(".git-credentials", ".npmrc", ".pypirc", ".gem/credentials", ".cargo/credentials.toml"),
    *(".config/git/credentials", ".config/gh/hosts.yml", ".config/glab-cli/config.yml"),
    *(".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties"),
    *(".yarnrc", ".yarnrc.yml", ".composer/auth.json", ".config/composer/auth.json"),
    *(".nuget/NuGet/NuGet.Config", ".config/NuGet/NuGet.Config", ".hex/hex.config"),
    *(".pub-cache/credentials.json", ".config/github-copilot/apps.json", ".bundle/config"),
    *(".config/sops/age/keys.txt", ".age/key.txt", ".bash_history", ".zsh_history"),
    *(".python_history", ".node_repl_history", ".psql_history", ".mysql_history", ".lesshst"),
    *(".mozilla/firefox/p/logins.json", ".config/google-chrome/Default/Cookies", ".thunderbird/p"),
    *(".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json"),
    *(".config/weft/tokens/host", ".local/share/weft/x", ".bashrc", ".profile", "notes.txt"),
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for name in CREDENTIALS:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret")
    return home


PROGRAMS = (".docker/bin", ".fly/bin", ".cargo/bin", ".local/bin", ".claude/local", ".hex/bin")


@pytest.mark.parametrize("kind", [BoxKind.BWRAP, BoxKind.LANDLOCK])
def test_no_credential_is_read_although_programs_beside_it_are(
    tmp_path: Path, home: Path, kind: BoxKind
) -> None:
    able = available()
    if able.resolve(kind) is BoxKind.OFF:
        pytest.skip(f"{kind} is not to be had on this machine")
    for name in PROGRAMS:
        program = home / name / "tool"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\n")
    checkout, place = tmp_path / "checkout", tmp_path / "workspace"
    (checkout / ".git").mkdir(parents=True)
    place.mkdir()
    path = ":".join([*(str(home / name) for name in PROGRAMS), str(home), os.environ["PATH"]])
    environment = {"HOME": str(home), "PATH": path}
    config = Config(sandbox=SandboxSettings())
    hidden = find_hidden(environment, checkout / ".git", [])
    wanted = describe_box(config, environment, checkout / ".git", hidden=hidden, checkout=checkout)
    box, _ = choose(
        Box(**{**vars(wanted), "kind": kind, "writable": (place,), "scratch": place}), able
    )
    read = (
        "import sys\nfor path in sys.argv[1:]:\n  try:\n    if open(path).read(): print(path)\n"
        "  except OSError: pass"
    )
    files = [str(home / name) for name in (*CREDENTIALS, *(f"{name}/tool" for name in PROGRAMS))]
    argv, variables = enclose(
        box, [sys.executable, "-S", "-c", read, *files], environment, cwd=place, name="weft-test"
    )
    done = subprocess.run(
        argv, env=variables, cwd=place, capture_output=True, text=True, check=True, timeout=60
    )
    assert set(done.stdout.split()) == {str(home / name / "tool") for name in PROGRAMS}


@pytest.mark.parametrize(
    ("text", "image", "variables"),
    [
        ('{"image": "debian:12"}', "debian:12", {}),
        (
            '{\n// why\n"name": "a//b", /* x */ "image": "x", "containerEnv": {"A": "1,}",},\n}',
            "x",
            {"A": "1,}"},
        ),
        ('{"image": "x", "customizations": {"vscode": {}}}', "x", {}),
    ],
)
def test_image_and_variables_of_a_devcontainer_are_taken(
    text: str, image: str, variables: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "devcontainer.json"
    file.write_text(text)
    assert read_devcontainer(file) == (image, variables)
    settings = SandboxSettings(image="devcontainer.json", engine=("podman",))
    container = find_container(settings, tmp_path)
    assert container is not None
    assert (container.image, dict(container.variables)) == (image, variables)
    box = Box(kind=BoxKind.CONTAINER, container=container)
    argv, _ = enclose(box, ["true"], {"A": "own"}, cwd=tmp_path, name="x")
    assert "A=1,}" not in argv, "a variable of the program itself goes first"


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ('{"image": "x", "features": {}, "runArgs": []}', "asks for features, runArgs"),
        ('{"build": {"dockerfile": "Dockerfile"}}', "asks for build"),
        ('{"image": "x", "postCreateCommand": "make"}', "postCreateCommand"),
        ('{"image": "x", "mounts": ["source=/,target=/host"]}', "mounts"),
        ('{"image": "x", "containerEnv": {"K": "${localEnv:KEY}"}}', "texts without"),
        ('{"image": "x", "containerEnv": 3}', "texts without"),
        ("{}", "needs an `image`"),
        ("[]", "must be an object"),
        ("{", "cannot be read"),
    ],
)
def test_more_of_a_devcontainer_is_refused_by_name(text: str, refused: str, tmp_path: Path) -> None:
    file = tmp_path / "devcontainer.json"
    file.write_text(text)
    with pytest.raises(InputError, match=refused):
        read_devcontainer(file)


def test_a_script_brings_its_interpreter_and_a_program_in_home_opens_no_more_than_itself(
    tmp_path: Path,
) -> None:
    home, tools = tmp_path / "home", tmp_path / "tools" / "bin"
    home.mkdir()
    tools.mkdir(parents=True)
    for path, text in (
        (home / "agent", "#!/usr/bin/env -S node --flag\n"),
        (tools / "node", f"#!{tmp_path}/cellar/bin/real\n"),
        (tmp_path / "cellar" / "bin" / "real", ""),
    ):
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
        path.chmod(0o755)
    environment = {"HOME": str(home), "PATH": f"{home}:{tools}"}
    places = find_tool_chains(environment, ["agent"])
    assert set(places) == {home / "agent", tmp_path / "tools", tmp_path / "cellar"}


STARTERS = {
    # name: the only files that call it, with the reason why no box is missing there
    "process.start(": {"attempt/start.py", "gate/check_run.py"},  # agents, checks: in their boxes
    "run_logged(": {
        "workspace/setup.py",  # set-up and teardown, in the box of checks
        "worker/projections/beads_program.py",  # programs that the user names
        "worker/projections/notifications.py",
        "process/commands.py",
    },
    "run_attached(": {"cli/review.py", "cli/page_link.py", "demo/shop.py", "process/commands.py"},
}


def test_every_start_of_a_program_is_known() -> None:
    """Programs of a candidate start at two places, both of which enter a box."""
    sources = Path(weft.__file__).parent
    for call, places in STARTERS.items():
        callers = {
            str(path.relative_to(sources))
            for path in sources.rglob("*.py")
            if call in path.read_text()
        }
        assert callers == places, call


SHARED = {
    "cli/demo.py",  # a project that the user asked for
    "git/disk.py",  # for a user who may not write into the repository
    "maintenance/agent_trial.py",  # the repository of a trial, which its agent writes
    "process/commands.py",  # unlinked before it is written
}


def test_files_that_weft_shows_or_reads_are_in_private_places() -> None:
    """A program of the same user could rewrite them in the shared temporary directory."""
    sources = Path(weft.__file__).parent
    calls = ("mkdtemp(", "mkstemp(", "TemporaryDirectory(", "NamedTemporaryFile(", "gettempdir(")
    shared = {
        str(path.relative_to(sources))
        for path in sources.rglob("*.py")
        for line in path.read_text().splitlines()
        if any(call in line for call in calls) and "dir=" not in line
    }
    assert shared == SHARED


def test_every_promise_of_the_security_page_names_its_tests() -> None:
    root = Path(__file__).parent.parent.parent
    text = (root / "SECURITY.md").read_text().partition("## What agents can do")[2]
    blocks = filter(None, re.split(r"\n\n|\n(?=- )", text))
    promises = [block for block in blocks if not block.startswith(("#", "|", "The page:"))]
    tests: set[str] = set()
    for promise in promises:
        names = re.findall(r"\[((?:no test|[a-z_0-9]+/test_)[^\]]*)\]", promise)
        assert names or promise.startswith(("- **values", "- **credentials", "- They can")), promise
        tests.update(test for name in names for test in re.findall(r"[a-z_0-9]+/test_\w+", name))
    assert [test for test in sorted(tests) if not (root / "tests" / f"{test}.py").is_file()] == []
