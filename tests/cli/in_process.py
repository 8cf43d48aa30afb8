"""Commands called in this process, on any store: quicker than a shell, and the same code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from weft.cli import weft
from weft.errors import WeftError

Tell = Callable[..., str]


def teller(directory: Path, url: str) -> Tell:
    """Runs a command there and returns what it printed; raises what it refuses with."""

    def tell(*arguments: str) -> str:
        runner = CliRunner(env={"WEFT_STORE": url, "WEFT_LLM": None})
        done = runner.invoke(weft, ["-C", str(directory), *arguments], standalone_mode=False)
        if isinstance(done.exception, WeftError):
            raise done.exception
        assert done.exception is None, done.exc_info
        return done.output

    return tell


def told(tell: Tell, *arguments: str) -> Any:
    return json.loads(tell(*arguments, "--json"))
