"""The parts of an adapter: facts about a program, its start, the meaning of its lines."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from weft.agents import json_lines, reset_time
from weft.agents.agent import Agent
from weft.agents.events import Error, Event, Retrying, Unknown
from weft.agents.json_lines import JsonRecord
from weft.agents.program_files import ProgramFiles
from weft.model import ErrorClass

LONGEST_ARGUMENT: Final = 128 * 1024 - 1
"""The longest argument that Linux takes, in a command line of any length."""


class Home(Struct, frozen=True, kw_only=True):
    """A settings directory that a program finds through an environment variable.

    Each attempt gets its own copy: the settings that `launch` wrote, and links to the other files
    in the user's directory.
    """

    place: ProgramFiles  # the user's own directory
    settings: str  # the settings file there that `launch` writes
    shared: tuple[str, ...] = ()  # directories in it that later attempts must find again


class Journal(Struct, frozen=True, kw_only=True):
    """A file in the attempt's directory in which a program tells more than it prints."""

    path: str
    read: Callable[[str], tuple[Event, ...]]  # reads the end of the file once the program has ended


class Facts(Struct, frozen=True, kw_only=True):
    program: str  # the program to install; empty: the agent file names it
    provider: str = ""  # the provider of its models; empty: it talks to no model
    names_provider: bool = False  # its models are called `provider/model`
    first_signal: signal.Signals  # ends it cleanly
    idle: float  # seconds without a line after which it is taken to hang
    says_result: bool  # whether ending well shows in its output; otherwise exit code 0 does
    session_stays: bool = False  # a session resumes only in the directory where it began
    in_pieces: bool = False  # whether it prints a text a few words at a time
    exits: Mapping[int, ErrorClass] = field(default_factory=dict)  # exit codes with a meaning
    # Reads a line of standard error; None: standard error is ignored.
    read_error: Callable[[bytes], tuple[Event, ...]] | None = None
    # Failed requests in a row after which weft ends the program; None: the program gives up itself.
    tries: int | None = None
    journal: Journal | None = None
    home: Home | None = None
    reading: tuple[str, ...] = ()  # its tools that only read, where tools can be chosen
    passes: tuple[str, ...] = ()  # variables of the user's it needs, such as its keys
    # Places of its own that it must be able to write besides its work:
    directories: tuple[ProgramFiles, ...] = ()
    files: tuple[ProgramFiles, ...] = ()


class Mcp(Struct, frozen=True, kw_only=True):
    """weft's own tools, for agents that may call them."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"Mcp(url={self.url!r})"  # no message or log may show the token


class Start(Struct, frozen=True, kw_only=True):
    """The circumstances of a launch besides agent and prompt."""

    directory: str  # the attempt's own, outside the workspace, private
    session: str | None = None  # to go on with
    mcp: Mcp | None = None
    micro_usd: int | None = None  # the most it may spend
    root: bool = False  # whether it will run as root
    tape: Mapping[str, bytes] = field(default_factory=dict)  # files of a recording to play
    settings: bytes = b""  # the user's settings, where the program's `Home` names them


class Launch(Struct, frozen=True, kw_only=True):
    argv: tuple[str, ...]
    stdin: bytes = b""  # written, then closed: some wait for ever on an open pipe
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)  # to be put into the directory


class ReaderState(Struct, frozen=True, kw_only=True):
    """The memory of a reader from line to line."""

    session: str = ""
    item: str = ""  # the message or item that was last counted or shown
    text: str = ""  # the last message, or as much of it as has come


Read = tuple[tuple[Event, ...], ReaderState]


class Adapter(Protocol):
    @property
    def FACTS(self) -> Facts: ...  # noqa: N802 - a constant of each module

    def launch(self, agent: Agent, prompt: str, start: Start) -> Launch: ...

    def read(self, line: bytes, reading: ReaderState) -> Read:
        """Return the events of a line. Never raises, for any bytes."""
        ...


def read_json(
    line: bytes,
    reading: ReaderState,
    session_key: str,
    read: Callable[[JsonRecord, ReaderState], Read | None],
) -> Read:
    """Read a line of JSON by `read`, which returns None for an unknown record.

    A new session in the field `session_key` is reported before the other events.
    """
    if not line.strip():
        return (), reading
    record = json_lines.decode(line)
    if record is None:
        return (Unknown(len(line)),), reading
    begun = json_lines.started(record.text(session_key), reading.session)
    if begun:
        reading = replace(reading, session=begun[0].session)
    parts, reading = read(record, reading) or ((Unknown(len(line)),), reading)
    return (*begun, *parts), reading


def report_error(kind: ErrorClass | None, text: str) -> tuple[Event, ...]:
    """Report a failure, after the rate limit that caused it."""
    limit = (reset_time.parse_rate_limit(text),) if kind is ErrorClass.RATE_LIMIT else ()
    return (*limit, Error(kind=kind, text=text))


def report_retry(kind: ErrorClass | None, text: str) -> tuple[Event]:
    """Report a failed request that the program sends again."""
    if kind is ErrorClass.RATE_LIMIT:
        return (reset_time.parse_rate_limit(text),)
    return (Retrying(kind=kind, text=text),)


def environment(
    agent: Agent, launch: Launch, facts: Facts, own: Mapping[str, str]
) -> dict[str, str]:
    """Return an agent's variables beyond the common part; `own` is the user's environment.

    Variables that the user passes on override our defaults, and the agent file overrides both.
    """
    passed = {name: own[name] for name in (*facts.passes, *agent.env_passed) if name in own}
    return {**launch.environment, **passed, **agent.env_set}


TOKEN_FILE: Final = "mcp_token"  # noqa: S105 - the name of a file


def announce_mcp(start: Start) -> Launch:
    """Tell a program without a setting for MCP servers where weft's tools are.

    The token is in a file: child processes would inherit a variable, and `env` would print it.
    """
    if start.mcp is None:
        return Launch(argv=())
    return Launch(
        argv=(),
        environment={
            "WEFT_MCP_URL": start.mcp.url,
            "WEFT_MCP_TOKEN_FILE": f"{start.directory}/{TOKEN_FILE}",
        },
        files={TOKEN_FILE: start.mcp.token.encode("ascii")},
    )


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8")


def option(name: str, value: str | None) -> tuple[str, ...]:
    return (name, value) if value else ()
