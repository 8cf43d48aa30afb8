#!/usr/bin/env python3
"""The player: prints a recorded attempt again, line by line, and makes its calls.

    player.py TAPE [--fast]

TAPE is a JSON file: {"lines": [[seconds, "out" or "err", text], …], "calls": [{"at": seconds,
"tool": …, "arguments": …}, …], "exit": {"why", "code", "signal"}, "wait": path or null}. Lines come
at their times, or at once with --fast. Calls go to weft's tools, over MCP at WEFT_MCP_URL with the
token in the file WEFT_MCP_TOKEN_FILE. The last line waits for the file `wait`, if there is one:
weft writes it once the attempts and landings that came before have come again.

It imports few modules, so that it starts at once.
"""

import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PATIENCE = 60.0  # seconds to die of a signal
_PAUSE = 0.02  # seconds between two looks at a file


def main(arguments: "list[str]") -> int:
    with open(arguments[0], encoding="utf-8") as file:
        tape = json.load(file)
    sys.stdin.buffer.read()
    _play(tape, fast="--fast" in arguments[1:])
    return _end(tape["exit"])


def _play(tape: "dict[str, Any]", fast: bool) -> None:
    began = time.monotonic()
    parts: list[tuple[float, Any]] = [(line[0], line) for line in tape["lines"]]
    parts += [(call["at"], call) for call in tape["calls"]]
    parts.sort(key=lambda part: part[0])
    for number, (at, part) in enumerate(parts):
        if not fast:
            time.sleep(max(0.0, began + at - time.monotonic()))
        if number == len(parts) - 1:
            _wait(tape["wait"])
        if isinstance(part, dict):
            _call(part["tool"], part["arguments"])
        else:
            _print(part[1], part[2])
    if not parts:
        _wait(tape["wait"])


def _print(stream: str, text: str) -> None:
    os.write(2 if stream == "err" else 1, text.encode("utf-8", "surrogateescape") + b"\n")


def _wait(path: "str | None") -> None:
    while path is not None and not os.path.exists(path):
        time.sleep(_PAUSE)


def _call(tool: str, arguments: "dict[str, object]") -> None:
    # The interpreter is isolated, so that weft is not on its path.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from weft.scripted import Mistake, call_tool

    try:
        call_tool(tool, arguments)
    except KeyError:
        _print("err", f"The recording calls {tool}, and weft's tools are not served here.")
        sys.exit(1)
    except (OSError, Mistake) as error:  # it may have been refused when it was recorded, too
        _print("err", f"{tool}: {error}")


def _end(recorded: "dict[str, object]") -> int:
    """End as the recorded program did; an attempt that weft ended is ended by weft again."""
    if recorded["why"] != "ended":
        while True:
            signal.pause()
    number = recorded.get("signal")
    if isinstance(number, int):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        time.sleep(_PATIENCE)
    code = recorded.get("code")
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
