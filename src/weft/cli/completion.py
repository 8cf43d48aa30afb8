"""`weft completion`"""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

_VARIABLE: Final = "_WEFT_COMPLETE"  # click derives this name from the program's


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands in a shell.

    \b
    bash: eval "$(weft completion bash)" in ~/.bashrc
    zsh:  eval "$(weft completion zsh)" in ~/.zshrc
    fish: weft completion fish > ~/.config/fish/completions/weft.fish
    """
    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(ctx.find_root().command, {}, "weft", _VARIABLE).source())
