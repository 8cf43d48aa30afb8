"""The table of one-line helps, and the modules that commands load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from repositories import make_repository
from weft.cli import COMMANDS, agents, plan, weft
from weft.cli.command_group import CommandTable, load_command

HEAVY = {"anyio", "asyncio", "fastapi", "mcp", "psycopg", "rich", "sqlite3"}


@pytest.mark.parametrize("table", [COMMANDS, agents.COMMANDS, plan.COMMANDS])
def test_the_table_has_the_short_help_of_each_command(table: CommandTable) -> None:
    for name, (address, help) in table.items():
        command = load_command(address)
        assert command.name == name
        assert command.get_short_help_str(limit=1000) == help


@pytest.mark.parametrize("group", [weft, agents.command, plan.command])
def test_one_line_helps_fit_80_columns(group: click.Group) -> None:
    for name, command in group.commands.items():
        assert len(f"  {name:<8} {command.get_short_help_str(limit=1000)}") <= 78


def test_shell_completion_lists_commands_with_their_helps() -> None:
    completion = ShellComplete(weft, {}, "weft", "_WEFT_COMPLETE")
    items = completion.get_completions([], "re")
    assert {item.value: item.help for item in items} == {
        name: COMMANDS[name][1] for name in ("reject", "report", "resume", "retry")
    }
    assert [item.value for item in completion.get_completions(["agents"], "")] == ["resume", "test"]


def test_help_imports_no_command(tmp_path: Path) -> None:
    loaded = _modules(tmp_path, "--help")
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("weft.")} == {
        "weft.cli",
        "weft.cli.command_group",
        "weft.cli.output",
        "weft.errors",
    }


def test_ps_imports_neither_servers_nor_event_loops(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "project")
    loaded = _modules(root, "ps")
    assert "weft.store.overview" in loaded
    assert not loaded & (HEAVY - {"sqlite3"})


def _modules(directory: Path, *arguments: str) -> set[str]:
    program = (
        "import sys; from weft.cli import weft; weft(sys.argv[1:], standalone_mode=False);"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=directory, capture_output=True, check=True
    )
    return set(done.stderr.decode().split())
