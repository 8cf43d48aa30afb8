"""`weft schema`"""

from __future__ import annotations

from importlib import resources

import click


@click.command(name="schema")
@click.argument("file", type=click.Choice(["weft.toml", "agent"]))
def command(file: str) -> None:
    """Print the JSON Schema of weft.toml or of agent files.

    An editor that reads the schema completes and checks the settings.
    """
    schemas = resources.files("weft.maintenance") / "schemas"
    click.echo((schemas / f"{file}.json").read_text(encoding="utf-8"), nl=False)
