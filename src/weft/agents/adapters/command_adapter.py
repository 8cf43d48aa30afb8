"""Any program, by the command line in its agent file.

`{prompt}` in an argument becomes the prompt, `{prompt_file}` the path of a file that holds it,
`{model}` the model; without the first two, the prompt goes to standard input. Lines are text. Exit
code 0 is needed, and the changes in the repository decide. If weft serves its tools, WEFT_MCP_URL
is their address and WEFT_MCP_TOKEN_FILE names a file with the token for them.
"""

from __future__ import annotations

import re
import signal
from typing import Final

from weft.agents import events, json_lines
from weft.agents.adapters import adapter
from weft.agents.agent import Agent
from weft.errors import InputError

FACTS: Final = adapter.Facts(program="", first_signal=signal.SIGTERM, idle=1800, says_result=False)

_PROMPT_FILE: Final = "prompt.md"
_PLACE: Final = re.compile(r"\{(prompt|prompt_file|model)\}")


def launch(agent: Agent, prompt: str, start: adapter.Start) -> adapter.Launch:
    path = f"{start.directory}/{_PROMPT_FILE}"
    given = {"prompt": prompt, "prompt_file": path, "model": agent.model or ""}
    words = (*agent.command, *agent.args)
    asked = {place for word in words for place in _PLACE.findall(word)}
    # A single pass over the words, so that text inside the prompt is never replaced.
    argv = tuple(_PLACE.sub(lambda place: given[place[1]], word) for word in words)
    if any(len(word.encode("utf-8")) > adapter.LONGEST_ARGUMENT for word in argv):
        raise InputError(
            f"{agent.file}: the prompt is too long for an argument; use {{prompt_file}}."
        )
    data = prompt.encode("utf-8")
    mcp = adapter.announce_mcp(start)
    return adapter.Launch(
        argv=argv,
        stdin=b"" if asked & {"prompt", "prompt_file"} else data,
        environment=mcp.environment,
        files={**mcp.files, **({_PROMPT_FILE: data} if "prompt_file" in asked else {})},
    )


def read(line: bytes, reading: adapter.ReaderState) -> adapter.Read:
    text = json_lines.plain(line)
    return ((events.TextEvent(text),) if text.strip() else (), reading)
