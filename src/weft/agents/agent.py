"""An agent as its file describes it. Reading the file is left to `file`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

from weft.config import BoxKind
from weft.teams.team_text import Team

PROGRAMS: Final = ("claude", "codex", "opencode", "gemini", "scripted", "recorded")
"""The programs that `runs` may name. Any other value is a command line of the user's own."""

COMMAND: Final = "command"
SCRIPTED: Final = "scripted"
RECORDED: Final = "recorded"
MODEL_PROGRAMS: Final = ("claude", "codex", "opencode", "gemini")
"""Programs that a model steers. They run in a sandbox unless their agent file says otherwise."""

USUAL_HOPS: Final = 8
"""Hand-overs of a task, unless the file of its first agent says otherwise."""

ARG_TYPES: Final = ("text", "number", "boolean", "list", "files")
"""Types of the arguments of a hand-over. `files` are patterns that the task claims from then on."""

LIMITS_TOOLS: Final = ("claude", "gemini")

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Prices(Struct, frozen=True, kw_only=True):
    """Micro-dollars for a million tokens."""

    input: int
    output: int
    cache_read: int
    cache_write: int


class AgentBudget(Struct, frozen=True, kw_only=True):
    """The most that an attempt may use."""

    micro_usd: int | None = None
    tokens: int | None = None


class Agent(Struct, frozen=True, kw_only=True):
    name: str
    file: str  # where it was read, for messages
    template: str
    template_line: int  # where the template starts in the file
    runs: str  # the adapter
    command: tuple[str, ...] = ()  # the command line, when the adapter is `command`
    description: str = ""
    model: str | None = None
    args: tuple[str, ...] = ()
    max_concurrency: int | None = None  # None: unlimited; 0: paused
    stage: str | None = None
    capabilities: tuple[str, ...] = ()
    needs_labels: tuple[str, ...] = ()  # labels that its worker must have
    provider: str | None = None
    prices: Prices | None = None
    timeout: float | None = None
    idle_timeout: float | None = None  # None: the program's default
    budget: AgentBudget = field(default_factory=AgentBudget)
    sandbox: BoxKind = BoxKind.OFF
    image: str = ""  # of its containers; '': that of [sandbox]
    network: bool = True  # whether its box lets it out
    memory: int | None = None  # bytes that its box allows; None: those of the host
    pids: int | None = None  # processes that its box allows; None: the usual number
    write: tuple[str, ...] = ()  # where its box lets it write besides: `/…` or `~/…`
    read: tuple[str, ...] = ()  # paths that its box opens for reading: `/…` or `~/…`
    env_passed: tuple[str, ...] = ()  # variables of the user's that it gets to see
    env_set: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    tools: tuple[str, ...] = ()  # the only tools of its own it may use; empty: all
    commands: bool = False  # scripted agent: its script may run programs
    open: bool = False  # tokens that name no agents may send it work
    sends_to: tuple[str, ...] = ()  # lead: the agents it may send work to
    team: Team | None = None  # works on each of its tasks, unless the task names a team
    recordings: str = ""  # recorded: the directory of the recordings it plays
    hands_to: tuple[str, ...] = ()  # the agents to which it may hand its task over
    hops: int | None = None  # hand-overs of a task that starts with it; None: `USUAL_HOPS`
    takes: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """The arguments of a hand-over to it: name and type, all of them required."""
