"""`weft` again and again, each time in a fork of a process that has imported it: that is faster.

Reads command lines as JSON, one a line, and answers with how each ended and what it printed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from typing import Any

from weft.cli import COMMANDS, main
from weft.cli.command_group import load_command


def carry_out(asked: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            _be(asked)
        _, status = os.waitpid(child, 0)
        out.seek(0)
        errors.seek(0)
        return {
            "code": os.waitstatus_to_exitcode(status),
            "out": out.read().decode(),
            "errors": errors.read().decode(),
        }


def _be(asked: dict[str, Any]) -> None:
    code = 70
    try:
        os.chdir(asked["directory"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.argv = ["weft", *asked["arguments"]]
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    for address, _ in COMMANDS.values():
        load_command(address)
    importlib.import_module("weft.store.remote_store")
    for line in sys.stdin:
        sys.stdout.write(json.dumps(carry_out(json.loads(line))) + "\n")
        sys.stdout.flush()
