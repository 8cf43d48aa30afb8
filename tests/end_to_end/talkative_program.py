"""A `claude` that tells all it knows: in its words, a tool's arguments, its result, its errors."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

KEY = os.environ["MY_API_KEY"]


def say(kind: str, **rest: Any) -> None:
    sys.stdout.write(json.dumps({"type": kind, "session_id": "5e55", **rest}) + "\n")


def main() -> None:
    prompt = sys.stdin.read()
    parts = [
        {"type": "text", "text": f"The key is {KEY}, you know."},
        {"type": "tool_use", "name": "Bash", "input": {"command": f"{'x' * 280} {KEY}"}},
        {"type": "text", "text": json.dumps({"deeper": json.dumps({"key": KEY})})},
    ]
    for part in parts:
        say("assistant", message={"content": [part]})
    sys.stdout.write(f"not JSON: {KEY}\n")
    sys.stderr.write(f"an error with {KEY}\n")
    if "Task fails" in prompt:
        say("result", subtype="success", is_error=True, result=f"It broke on {KEY}.")
        sys.exit(1)
    [file] = os.environ["WEFT_FILES"].split()
    Path(file).write_text(f"attempt {os.environ['WEFT_ATTEMPT']}\n")
    say("result", subtype="success", is_error=False, result=f"Done, with {KEY}.")


if __name__ == "__main__":
    main()
