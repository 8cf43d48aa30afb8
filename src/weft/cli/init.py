"""`weft init`"""

from __future__ import annotations

from pathlib import Path

import click

from weft import git
from weft.cli.output import json_option, print_json
from weft.maintenance.project_files import init


@click.command(name="init")
@json_option
@click.pass_obj
def command(directory: Path, as_json: bool) -> None:
    """Write weft.toml and .weft/agents/ for this repository.

    Files that are there already are left as they are, so it is safe to run again.
    """
    root = git.top_level(directory)
    written = init(root)
    if as_json:
        created = [file.path for file in written if file.created]
        kept = [file.path for file in written if not file.created]
        print_json({"root": str(root), "created": created, "kept": kept})
        return
    for file in written:
        click.echo(f"{'created' if file.created else 'kept   '}  {file.path}")
    click.echo('Next: `weft do "Hello" --agent try` shows how it works, without a model or a key;')
    click.echo("`weft agents` lists who else is there, `weft doctor` checks the set-up.")
