"""The commands of README and docs: shell blocks run in a fresh repository, all others exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cases import each_case
from disk_directory import tmp_path as tmp_path
from documents import BLOCK, DOCUMENTS, ROOT, blocks, make_project, programs, run_block, run_blocks
from repositories import git
from weft.agents.adapters import ADAPTERS
from weft.agents.adapters.adapter import Start
from weft.agents.agent import MODEL_PROGRAMS
from weft.agents.agent_file import parse_agent
from weft.cli import weft

INLINE = re.compile(r"`(weft [^`]+)`")


@pytest.mark.parametrize(
    "document", [path for path in DOCUMENTS if blocks(path, "sh")], ids=lambda path: path.name
)
def test_the_shell_blocks_of_a_document_run_in_a_fresh_repository(
    document: Path, tmp_path: Path
) -> None:
    root, environment = make_project(tmp_path / "project"), programs(tmp_path / "bin")
    if document.name == "README.md":
        [plan] = blocks(document, "markdown")
        (root / "plan.md").write_text(plan)
    run_blocks(document, root, environment)
    if document.name == "README.md":
        assert {"USAGE.md", "QUESTIONS.md", "INDEX.md"} <= {*git(root, "ls-files").split()}


def test_init_ends_with_the_commands_that_come_next(tmp_path: Path) -> None:
    root, environment = make_project(tmp_path / "project"), programs(tmp_path / "bin")
    done = run_block("weft init --yes", root, environment)
    work, commit, plan = done.stdout.splitlines()[-3:]
    assert work.startswith("ok "), done.stdout
    assert commit.startswith("next: commit these files.")
    assert "`weft run plan.md`" in plan


def mentions() -> Iterator[tuple[str, str]]:
    """Yield each document's name with a command that it mentions but does not run."""
    for document in DOCUMENTS:
        text = document.read_text()
        for line in "".join(blocks(document, "console")).splitlines():
            command = line.removeprefix("$ ").partition("  #")[0].strip()
            if command.startswith("weft "):
                yield document.name, command
        for command in INLINE.findall(BLOCK.sub("", text)):
            yield document.name, " ".join(command.split())


@each_case(("document", "command"), sorted({*mentions()}))
def test_a_mentioned_command_and_its_options_exist(document: str, command: str) -> None:
    words = shlex.split(command.replace("…", "").replace("|", " "))[1:]
    context, group = click.Context(weft, info_name="weft"), weft
    known = {option for p in weft.params for option in (*p.opts, *p.secondary_opts)}
    while words:
        word = words.pop(0)
        if word.startswith("-"):
            option = word.partition("=")[0]
            assert option in known | {"-h", "--help"}, f"{document}: {command}"
            if option in ("--server", "-C"):
                words[:1] = []
        elif isinstance(group, click.Group) and word in group.list_commands(context):
            _, command_, _ = group.resolve_command(context, [word])
            assert command_ is not None
            context = click.Context(command_, info_name=word, parent=context)
            group = command_  # type: ignore[assignment]  # a command ends the walk
            known |= {o for p in command_.params for o in (*p.opts, *p.secondary_opts)}
        elif group is weft:
            raise AssertionError(f"{document}: there is no command {word!r} in {command!r}")


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) < 600


PERMISSIONS = {
    "claude": {"--dangerously-skip-permissions"},
    "codex": {"--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"},
    "opencode": {"--auto"},
    "gemini": {"--yolo", "--skip-trust"},
}
HARMLESS = {"--output-format", "--verbose", "--json", "--format", "--print-logs", "--log-level"}


@each_case("program", MODEL_PROGRAMS)
def test_each_document_names_the_permission_flags_that_the_adapter_passes(program: str) -> None:
    agent = parse_agent(f"---\nruns: {program}\n---\n", name="a", file="a")
    argv = ADAPTERS[program].launch(agent, "", Start(directory="/tmp")).argv
    flags = {word for word in argv if word.startswith("--")} - HARMLESS
    assert flags == PERMISSIONS[program], "a new flag is named in the documents or is harmless"
    for name in ("README.md", "SECURITY.md", "docs/agents.md"):
        [row] = [
            line
            for line in (ROOT / name).read_text().splitlines()
            if line.startswith(f"| {program} |")
        ]
        assert {*re.findall(r"`(--[\w-]+)`", row)} == flags, name
