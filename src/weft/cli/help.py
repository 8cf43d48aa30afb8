"""`weft help`"""

from __future__ import annotations

import click


@click.command(name="help")
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of a command, such as `weft help plan check`."""
    context = ctx.find_root()
    for name in names:
        group = context.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"`{context.command_path}` has no command {name!r}.")
        _, subcommand, _ = group.resolve_command(context, [name])
        assert subcommand is not None
        context = click.Context(subcommand, info_name=name, parent=context)
    click.echo(context.get_help())
