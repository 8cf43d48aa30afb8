"""The site: parts that all attempts of a process share, and the directories of attempts."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote

from msgspec import Struct, field
from msgspec.structs import replace

from weft.agents.agent import RECORDED, Agent
from weft.config import BoxKind, Config, RunSettings
from weft.errors import InputError
from weft.git.http_backend import CandidateName
from weft.process import Breaker
from weft.process.box import Able, Box, choose
from weft.process.environment import build_environment
from weft.process.launcher import Launcher
from weft.project.boxes import describe_box, find_hidden
from weft.project.changeover import Changeover
from weft.project.mirror_use import MirrorUse
from weft.redaction import list_secrets
from weft.store import Store
from weft.store.runs import get_settings
from weft.workspace import Terms

AGENTS: Final = ".weft/agents"
_LARGEST: Final = 1 << 20


class Transport(Protocol):
    """The way between a mirror on this host and the repository on its home host."""

    use: MirrorUse

    def find_kept(self, commits: Collection[str]) -> frozenset[str]:
        """Return those of the commits that home keeps below `refs/weft/`."""
        ...

    def fetch(self, run: str | None, commits: Collection[str]) -> None:
        """Bring over HEAD, the trunk of a run, and those of the commits that home still has."""
        ...

    def push(self, commit: str, name: CandidateName) -> None:
        """Bring a candidate home."""
        ...

    def read_settings(self) -> RunSettings:
        """Return the settings and agent files of the checkout at home."""
        ...


Combine = Callable[[str, Sequence[tuple[str, str]]], str]
"""Merges candidates, each given with its base, onto a tip; returns the commit."""


class Site(Struct, frozen=True, kw_only=True):
    store: Store
    identity: str  # the store's id: it separates attempts of two stores on the same repository
    root: Path  # the user's checkout
    common: Path  # the git directory that all checkouts share
    repository: str  # its id
    config: Config
    launcher: Launcher
    able: Able  # the boxes this machine has
    environment: Mapping[str, str]  # the user's
    combine: Combine
    settings: RunSettings | None = None  # settings of its run; None: settings of the checkout
    transport: Transport | None = None  # on a host without the repository; None: this is its home
    host: str = ""  # the name under which such a host has joined
    checks: bool = True  # it runs checks; home without them leaves checks to hosts that take them
    mcp: str | None = None  # where its agents find weft's own tools, if anywhere
    changeover: Changeover = field(default_factory=Changeover)
    breaker: Breaker = field(default_factory=Breaker)  # ends git's work on agents' files

    def terms(self) -> Terms:
        """Return the rules for a workspace, and the breaker of weft's own work there."""
        return Terms(
            rules=self.config.workspace,
            breaker=Breaker(self.breaker),
            environment=build_environment(self.environment, asked=(), given={}),
            box=self.box(),
        )

    def box(self) -> Box:
        """Return the box of checks, set-up and teardown on this machine."""
        environment = build_environment(self.environment, asked=(), given={})
        hidden = find_hidden(self.environment, self.common, list_store_files(self.store))
        wanted = describe_box(
            self.config, environment, self.common, hidden=hidden, checkout=self.root
        )
        return choose(wanted, self.able)[0]

    def directory(self, task: int, attempt: int) -> Path:
        """Return the directory of an attempt: its records, prompt and output."""
        return self.directory_in(self.common, task, attempt)

    def directory_in(self, common: Path, task: int, attempt: int) -> Path:
        """The same for an attempt of another repository."""
        return home(common, self.identity) / f"{task}.{attempt}"

    def marker(self, task: int, attempt: int) -> str:
        """Return the unique mark in the environment of every process of an attempt."""
        return f"{self.marker_prefix}{task}.{attempt}"

    @property
    def marker_prefix(self) -> str:
        return f"{self.identity}."

    def check_directory(self, fence: int) -> Path:
        """The same for a check, which is named by its lease."""
        return check_home(self.common, self.identity) / str(fence)

    def list_checks(self) -> set[int]:
        """The fences of checks that have a directory."""
        place = self.check_directory(0).parent
        names = os.listdir(place) if place.is_dir() else []
        return {int(name) for name in names if name.isdecimal()}

    def check_marker(self, fence: int) -> str:
        return f"{self.identity}.check.{fence}"

    def for_run(self, run: str | None) -> Site:
        """Return this site with the settings of a run; without a run, with those of the
        checkout."""
        if run is not None:
            settings = get_settings(self.store, run)
        elif self.transport is not None:
            settings = self.transport.read_settings()
        else:
            return self
        self.store.hide_secrets(list_secrets(self.environment, settings.gate.env))
        return replace(self, config=self.config.with_run(settings), settings=settings)

    def read_agent(self, name: str) -> Agent:
        """Read an agent from the run's own files, or from the checkout if there is no run."""
        if self.settings is None:
            return read_agent(self.root, name)
        if name not in self.settings.agents:
            raise InputError(
                f"The run was submitted without the agent {name!r}; `weft runs update` takes over "
                f"the files of {AGENTS} as they are now."
            )
        agent = parse_agent(self.settings.agents[name], name)
        return _play(agent, self.settings) if self.settings.recorded else agent

    def learn_secrets(self, agent: Agent) -> None:
        """Redact the secrets of this agent from now on."""
        self.store.hide_secrets(secrets_of(agent, self.environment))


def check_home(common: Path, identity: str) -> Path:
    """Return the parent of the directories of checks."""
    return common / "weft" / "checks" / identity[:12]


def _play(agent: Agent, settings: RunSettings) -> Agent:
    """Return an agent of the same prompt and limits that plays recordings."""
    return replace(
        agent,
        runs=RECORDED,
        recordings=settings.recorded,
        args=("--fast",) if settings.fast else (),
        command=(),
        model=None,
        provider=None,
        sandbox=BoxKind.OFF,
        env_passed=(),
        tools=(),
    )


def home(common: Path, identity: str) -> Path:
    """Return the parent of the attempt directories of a store in a repository."""
    return common / "weft" / "attempts" / identity[:12]


def read_agent(root: Path, name: str) -> Agent:
    return parse_agent(read_agent_file(root, name), name)


def parse_agent(text: str, name: str) -> Agent:
    from weft.agents.agent_file import (
        parse_agent,  # late: parsing YAML and templates costs start-up time
    )

    return parse_agent(text, name=name, file=f"{AGENTS}/{name}.md")


def read_agent_file(root: Path, name: str) -> str:
    path = root / AGENTS / f"{name}.md"
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        text = data.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(
            f"There is no agent {name!r}: {AGENTS}/{name}.md does not exist. "
            "`weft init` writes a useful set."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{AGENTS}/{name}.md cannot be read: {error}.") from error
    if len(data) > _LARGEST:
        raise InputError(f"{AGENTS}/{name}.md is too large; an agent file is a page or two.")
    return text


def read_chain(root: Path, name: str) -> dict[str, str]:
    """Read the files of an agent and of all agents that a chain of its hand-overs reaches."""
    files = {name: read_agent_file(root, name)}
    givers = [name]
    while givers:
        giver = givers.pop()
        for next_name in parse_agent(files[giver], giver).hands_to:
            if next_name in files:
                continue
            if next_name not in agent_names(root):
                raise InputError(
                    f"{AGENTS}/{giver}.md hands over to {next_name!r}, which has no agent file; "
                    "write one, or remove the name from `hands_to`."
                )
            files[next_name] = read_agent_file(root, next_name)
            givers.append(next_name)
    return files


def secrets_of(agent: Agent, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the secrets passed to an agent, as (name, value) pairs from this process's
    environment."""
    from weft.agents.adapters import get_adapter  # late import: few callers start the agent

    passed_on = (*get_adapter(agent).FACTS.passes, *agent.env_passed, *agent.env_set)
    return list_secrets({**environment, **agent.env_set}, passed_on)


def agent_names(root: Path) -> list[str]:
    """The agents a repository has files for."""
    directory = root / AGENTS
    return sorted(path.stem for path in directory.glob("*.md")) if directory.is_dir() else []


def find_stage(root: Path, name: str) -> str | None:
    """Return the stage that an agent file names; None if it names none or cannot be read."""
    try:
        return parse_agent(read_agent_file(root, name), name).stage
    except InputError:
        return None


def list_store_files(store: Store) -> list[Path]:
    """List the files of an SQLite store, and the tokens that servers left beside it."""
    if not store.url.startswith("sqlite:///"):
        return []
    path = os.path.realpath(unquote(store.url.removeprefix("sqlite:///")))
    files = [Path(path + ending) for ending in ("", "-wal", "-shm", "-journal")]
    return [*files, *Path(path).parent.glob("*.token")]
