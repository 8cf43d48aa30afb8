"""Options that are repeated or take a comma list of labels."""

from __future__ import annotations

import click

from weft.host_labels import parse_labels


def read_labels(
    _ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the labels of an option, each once."""
    try:
        return parse_labels(",".join(given)) if given else ()
    except ValueError as wrong:
        raise click.BadParameter(f"{','.join(given)!r} is not {wrong}.") from None
