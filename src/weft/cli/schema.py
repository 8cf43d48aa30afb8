"""`weft schema`"""

from __future__ import annotations

from importlib import resources

import click


@click.command(name="schema")
@click.argument("file", type=click.Choice(["weft.toml", "agent", "prd.json"]))
def command(file: str) -> None:
    """Print the JSON Schema of weft.toml, agent files or prd.json.

    An editor that reads the schema completes and checks the file.

    Example: weft schema prd.json > .weft/prd.schema.json
    """
    schemas = resources.files("weft.maintenance") / "schemas"
    click.echo((schemas / f"{file}.json").read_text(encoding="utf-8"), nl=False)
