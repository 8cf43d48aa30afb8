"""The table of one-line helps, and the modules that commands load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from cases import each_case
from repositories import make_repository
from weft.cli import COMMANDS, RENAMED, SECTIONS, agents, plan, weft
from weft.cli.command_group import CommandTable, load_command
from weft.operations.registry import OPERATIONS

HEAVY = {"anyio", "asyncio", "fastapi", "mcp", "psycopg", "rich", "sqlite3"}


@each_case("table", [COMMANDS, agents.COMMANDS, plan.COMMANDS])
def test_the_table_has_the_short_help_of_each_command(table: CommandTable) -> None:
    for name, (address, help) in table.items():
        command = load_command(address)
        assert command.name == name
        assert command.get_short_help_str(limit=1000) == help


@each_case("group", [weft, agents.command, plan.command])
def test_one_line_helps_fit_80_columns(group: click.Group) -> None:
    for name, command in group.commands.items():
        width = max(map(len, group.commands))
        assert len(f"  {name:<{width}}  {command.get_short_help_str(limit=1000)}") <= 78


def test_each_command_is_below_one_heading_of_the_help() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)


def test_help_shows_each_whole_one_line_help_below_its_heading() -> None:
    runner = CliRunner()
    lines = runner.invoke(weft, ["--help"], terminal_width=80).output.splitlines()
    assert runner.invoke(weft, ["help"], terminal_width=80).output.splitlines() == lines
    shown = {tuple(line.split(maxsplit=1)) for line in lines if line.startswith("  ")}
    for heading, names in SECTIONS.items():
        assert f"{heading}:" in lines
        assert {(name, COMMANDS[name][1]) for name in names} <= shown


def test_help_of_a_command_is_that_of_its_option() -> None:
    runner = CliRunner()
    asked = runner.invoke(weft, ["help", "plan", "check"])
    assert asked.output == runner.invoke(weft, ["plan", "check", "--help"]).output
    assert "Usage: weft plan check" in asked.output
    mistyped = runner.invoke(weft, ["help", "plan", "chekc"])
    assert "Did you mean check?" in mistyped.output


def test_a_former_command_names_the_command_to_type_instead() -> None:
    for name, words in RENAMED.items():
        assert name not in COMMANDS
        done = CliRunner().invoke(weft, [name, "x"])
        assert done.exit_code == 2
        assert f"`weft {name}` is now `weft {words}`." in done.output
        group, option = words.split()[0], words.split()[1:]
        shown = CliRunner().invoke(weft, [group, "--help"]).output
        assert all(word in shown for word in option), (name, words)


def test_a_forwarding_command_has_each_field_of_its_request() -> None:
    for name in ("cancel", "drain", "pause", "resume", "retry", "skip"):
        parameters = {parameter.name for parameter in load_command(f"verbs:{name}").params}
        subject, *rest = OPERATIONS[name].takes.__struct_fields__
        assert {*rest, "as_json"} <= parameters
        assert parameters & {subject, "names"}, name


@each_case("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_that_asks_weft(shell: str) -> None:
    script = CliRunner().invoke(weft, ["help", "completion", shell])
    assert script.exit_code == 0
    assert f"_WEFT_COMPLETE={shell}_complete" in script.output


def test_bash_completes_a_command_by_the_printed_script(tmp_path: Path) -> None:
    ask = "COMP_WORDS=(weft pl); COMP_CWORD=1; _weft_completion weft; echo ${COMPREPLY[*]}"
    line = f'eval "$(weft help completion bash)"; {ask}'
    programs = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, env=programs, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["plan"], done


def test_shell_completion_lists_commands_with_their_helps() -> None:
    completion = ShellComplete(weft, {}, "weft", "_WEFT_COMPLETE")
    items = completion.get_completions([], "re")
    assert {item.value: item.help for item in items} == {
        name: COMMANDS[name][1] for name in ("recordings", "report", "resume", "retry", "review")
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
