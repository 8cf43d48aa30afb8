"""The next agents of a task, as the prompt of its present agent describes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct

from weft.agents.agent import Agent
from weft.agents.proposal import LANGUAGE
from weft.model import ArgValue


class NextAgent(Struct, frozen=True, kw_only=True):
    name: str
    description: str
    takes: Mapping[str, str]  # the types of its arguments


def describe_next(agent: Agent) -> NextAgent:
    return NextAgent(name=agent.name, description=agent.description, takes=agent.takes)


def write_args(args: Mapping[str, ArgValue]) -> dict[str, str]:
    """Return the arguments of a hand-over as texts."""
    return {
        name: ", ".join(value) if isinstance(value, tuple) else _text(value)
        for name, value in args.items()
    }


def _text(value: str | float | bool) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def write_steps(agents: Sequence[NextAgent], *, tools: bool) -> str:
    """Return the ways to end with a step; empty for an agent that hands over to no other."""
    if not agents:
        return ""
    by_tool = "call the tool `hand_over`, `ask` or `sleep` and stop, or " if tools else ""
    first = agents[0]
    example = {"step": "hand_over", "agent": first.name, "note": "…"}
    args = {"args": dict.fromkeys(first.takes, "…")} if first.takes else {}
    return "\n".join(
        [
            "Without a step you finish the task. If another agent has to go on with it, "
            f"{by_tool}end your last message with a block like this:",
            "",
            f"```{LANGUAGE}",
            json.dumps({**example, **args}, ensure_ascii=False),
            "```",
            "",
            *(f"- {_describe(agent)}" for agent in agents),
            '- `{"step": "ask", "question": "…", "options": ["…", "…"]}` asks a person, and you '
            "go on with the answer.",
            '- `{"step": "sleep", "until": "2h"}` waits for a time, for `trunk moved` or for '
            "`task 12 done`, and you go on then.",
        ]
    )


def _describe(agent: NextAgent) -> str:
    args = ", ".join(f"{name} ({kind})" for name, kind in agent.takes.items())
    about = f": {agent.description.rstrip('.')}" if agent.description else ""
    return f"`{agent.name}`{about}." + (f" Arguments: {args}." if args else "")
