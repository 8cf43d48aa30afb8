"""`weft help`: the help of commands, shell completion and JSON Schemas."""

from __future__ import annotations

from importlib import resources

import click
from click.shell_completion import get_completion_class


class Topics(click.Group):
    """A group whose other arguments name a command of weft."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["of", *args])


@click.group(name="help", cls=Topics, invoke_without_command=True, subcommand_metavar="[COMMAND]…")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Show the help of a command, such as `weft help plan check`."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.find_root().get_help())


@command.command(name="of", hidden=True)
@click.argument("names", nargs=-1)
@click.pass_context
def help_of_command(ctx: click.Context, names: tuple[str, ...]) -> None:
    context = ctx.find_root()
    for name in names:
        group = context.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"`{context.command_path}` has no command {name!r}.")
        _, subcommand, _ = group.resolve_command(context, [name])
        assert subcommand is not None
        context = click.Context(subcommand, info_name=name, parent=context)
    click.echo(context.get_help())


@command.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands in a shell.

    \b
    bash: eval "$(weft help completion bash)" in ~/.bashrc
    zsh:  eval "$(weft help completion zsh)" in ~/.zshrc
    fish: weft help completion fish > ~/.config/fish/completions/weft.fish
    """
    script = get_completion_class(shell)
    assert script is not None
    # click derives the name of the variable from the name of the program.
    click.echo(script(ctx.find_root().command, {}, "weft", "_WEFT_COMPLETE").source())


@command.command(name="schema")
@click.argument("file", type=click.Choice(["weft.toml", "agent", "prd.json"]))
def schema(file: str) -> None:
    """Print the JSON Schema of weft.toml, agent files or prd.json.

    An editor that reads the schema completes and checks the file.

    Example: weft help schema prd.json > .weft/prd.schema.json
    """
    schemas = resources.files("weft.maintenance") / "schemas"
    click.echo((schemas / f"{file}.json").read_text(encoding="utf-8"), nl=False)
