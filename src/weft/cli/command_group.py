"""A command group that lists its commands without importing them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

CommandTable = Mapping[str, tuple[str, str]]
"""Command name → module of this package, or `module:attribute` where that is not `command`; help in
one line."""

_SYNONYMS: Final[Mapping[str, Sequence[str]]] = {
    **dict.fromkeys(("merge", "apply", "finish", "integrate"), ("land",)),
    **dict.fromkeys(("status", "list", "ls", "top", "state"), ("ps",)),
    **dict.fromkeys(("stop", "kill", "abort", "delete", "rm"), ("cancel",)),
    **dict.fromkeys(("start", "exec", "submit", "go"), ("run",)),
    **dict.fromkeys(("continue", "unpause"), ("resume",)),
    **dict.fromkeys(("push", "pr"), ("publish",)),
    **dict.fromkeys(("log", "output", "tail"), ("logs",)),
    **dict.fromkeys(("show", "explain", "info"), ("why",)),
    **dict.fromkeys(("gc", "prune", "purge"), ("clean",)),
    **dict.fromkeys(("follow", "monitor", "attach"), ("watch",)),
    **dict.fromkeys(("add", "task", "new"), ("do",)),
    **dict.fromkeys(("accept", "comment"), ("review",)),
    **dict.fromkeys(("rerun", "redo", "again"), ("retry",)),
    **dict.fromkeys(("web", "server", "ui"), ("serve",)),
}
"""Words of other tools for commands of weft."""

_NONE: Final[Mapping[str, Any]] = {}


class CommandGroup(click.Group):
    """A click group whose commands are imported when they are dispatched.

    Help and shell completion show the one-line helps of `table` and import no command.
    """

    def __init__(
        self,
        *args: Any,
        table: CommandTable,
        sections: Mapping[str, Sequence[str]] = _NONE,
        renamed: Mapping[str, str] = _NONE,
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self._table = table
        self._sections = sections
        self._renamed = renamed
        for name, (_, help) in table.items():
            self.add_command(click.Command(name, short_help=help))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands below the headings of their sections, with whole lines."""
        names = [name for section in self._sections.values() for name in section]
        rest = [name for name in self.list_commands(ctx) if name not in names]
        width = max(map(len, self.commands))
        for title, section in (*self._sections.items(), ("Commands", rest)):
            if section:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(width), self._help(name)) for name in section])

    def _help(self, name: str) -> str:
        return self.commands[name].get_short_help_str(limit=1000)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.commands and not ctx.resilient_parsing:
            if name in self._renamed:
                now = f"{ctx.command_path} {self._renamed[name]}"
                raise click.UsageError(f"`{ctx.command_path} {name}` is now `{now}`.", ctx=None)
            from difflib import get_close_matches  # late: only a typo needs it

            meant = [command for command in _SYNONYMS.get(name, ()) if command in self.commands]
            close = meant or get_close_matches(name, self.commands, n=1)
            hint = f"Did you mean {close[0]}?" if close else f"Try `{ctx.command_path} --help`."
            raise click.UsageError(f"There is no command {name!r}. {hint}", ctx=None)
        if name in self._table:
            return name, load_command(self._table[name][0]), args[1:]
        return super().resolve_command(ctx, args)


def load_command(address: str) -> click.Command:
    _import_msgspec()
    module, _, attribute = address.partition(":")
    command: click.Command = getattr(
        importlib.import_module(f"weft.cli.{module}"), attribute or "command"
    )
    return command


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions, whose import takes 5 % of the time of `weft ps`.

    Since Python 3.11, typing has the names that msgspec looks for in typing_extensions.
    """
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # makes its import fail
    try:
        importlib.import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]
