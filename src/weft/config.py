"""Configuration: built-in defaults, then `weft.toml`, then the environment.

Read once into a frozen object and passed down. The default limits here are those of a new store;
after that the store's limits hold, and `stated` has the limits that this process requires, so that
a difference can be refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import fields, replace

from weft.errors import InputError

FILE: Final = "weft.toml"

DEFAULT_LIMITS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "llm": 12,  # agents that talk to a model, all runs together
        "requests": 24,  # agents and checks that run, all runs together
        "runs": 4,  # runs at a time
        "run/agents": 4,  # agents of a run
        "run/teams": 2,  # teams of a run
        "team/members": 4,  # members of a team
        "stage/test": 4,  # agents of a run that write tests; more if run/agents is more
        "stage/implement": 4,  # agents of a run that implement; more if run/agents is more
        "stage/review": 1,  # agents of a run that review
        "stage/judge": 1,  # agents of a run that judge
    }
)
"""`run/…`, `team/…` and `stage/…` are the first limits of each new run or team."""

SETTABLE_PREFIXES: Final = ("provider:",)
"""Families of limits that have no default but may be stated by name."""

_TUNED: Final = "WEFT_TUNING_"
WORKER_SLOTS: Final = 4
_YEARS: Final = 1e9  # seconds
API_SLOTS: Final = 1


class BoxKind(StrEnum):
    """A kind of box around a program; `process.box` builds them."""

    ON = "on"  # the best kind of this machine
    BWRAP = "bwrap"
    CONTAINER = "container"
    LANDLOCK = "landlock"
    OFF = "off"


class Tuning(Struct, frozen=True, kw_only=True):
    """The numbers behind leases and order. Times in seconds."""

    lease: float = 60  # duration of a lease unless renewed
    heartbeat: float = 15  # time between two signs of life of a worker
    gone_after: float = 120  # T1: a watchdog ends its agent after this much silence of weft
    drift: float = 5  # difference between the clocks of two machines over a lease
    kill_grace: float = 10  # time between TERM and KILL
    offer: float = 60  # an unanswered offer ends after this
    prefer: float = 30  # a preference for a busy worker ends after this
    inbox: int = 100  # waiting messages of a task or member
    bypasses: int = 20  # K: capacity is reserved after this many
    in_a_row: int = 2  # admissions of a tenant while another tenant could go
    class_age: float = 20  # waiting time that raises the class by a step
    priority_age: float = 60  # waiting time that raises the priority by a step
    penalty_max: int = 4  # steps by which rate limits lower a provider's limit at most
    penalty_decay: float = 60  # time that lowers the penalty by a step
    penalty_successes: int = 5  # successes that lower it by a step
    queue: int = 1000  # ad-hoc tasks waiting at once
    pattern: int = 3  # equal failures that make a pattern
    output: int = 1 << 30  # bytes an agent may print
    wall: float = 3600  # time of an attempt, unless its task or agent file has its own
    backoff: float = 5  # the first wait after an overload; it doubles
    backoff_most: float = 8  # times that, at most
    backoff_jitter: float = 0.2  # a wait is up to this part longer or shorter
    timeout_retries: int = 2  # further attempts after a time-out
    no_change_retries: int = 1  # further attempts after an attempt without a change
    context_retries: int = 1  # further attempts after a full context
    lead_turns: int = 50  # attempts of a lead's task that messages may cause
    capacity_wait: float = 0  # an ad-hoc task that waits longer to start is evicted; 0: no task is
    capacity_poll: float = 5  # time between two looks for work of a worker that is not called
    work_stealing: bool = True  # false: only the end of a worker ends the preference for it

    @property
    def preference(self) -> float:
        """The seconds after which any worker may take a task that prefers another."""
        return self.prefer if self.work_stealing else _YEARS

    @property
    def silence(self) -> float:
        """T2: a host whose heartbeat number has not changed for this long is gone."""
        return self.gone_after + self.drift + self.kill_grace


class WorkspaceSettings(Struct, frozen=True, kw_only=True):
    """Contents of a workspace besides the files git tracks, and its bounds."""

    root: str = ""  # directory of workspaces; without it `<repository>.weft` beside the repository
    copy: tuple[str, ...] = ()  # ignored files or directories of the user's checkout
    link: tuple[str, ...] = ()  # the same, as links into the user's checkout
    setup: tuple[str, ...] | None = None  # a command line; runs in each workspace before its agent
    teardown: tuple[str, ...] | None = None  # a command line; runs when a workspace is given up
    keep: tuple[str, ...] = ()  # ignored directories that stay while their lock file is unchanged
    timeout: float = 600  # seconds each command may take
    first_port: int = 21_000  # the first port of tasks that use ports
    ports: int = 100  # number of ports for tasks that use ports
    spare_ram_mb: int = 1024  # left for other programs of this machine
    spare_disk_mb: int = 500  # the largest user of the disk is ended before less is left
    max_file_mb: int = 100  # an attempt with a larger changed file is refused


class GateSettings(Struct, frozen=True, kw_only=True):
    """The check that every landing must pass, and the number of parallel checks."""

    run: tuple[str, ...] | None = None  # a command line; must pass before any work lands
    slots: int = 2  # checks at a time
    timeout: float = 1800  # seconds a check may take
    every_commit: bool = False  # each commit of trunk must have passed by itself
    squash: str = "task"  # a commit per task, or per story (always, with every_commit)
    review: str = ""  # "you": a person accepts each candidate (`weft review`) before it lands
    env: tuple[str, ...] = ()  # the user's variables that checks can read
    sandbox: BoxKind = BoxKind.ON  # the box of checks, set-up and teardown
    network: bool = False  # whether that box lets them out


class CommitSettings(Struct, frozen=True, kw_only=True):
    """Messages of the commits that land."""

    style: str = "plain"  # subject: "plain", the title; "conventional", feat(scope): title


class RunSettings(Struct, frozen=True, kw_only=True):
    """The settings of a run, fixed when it is submitted."""

    gate: GateSettings = field(default_factory=GateSettings)
    workspace: WorkspaceSettings = field(default_factory=WorkspaceSettings)
    commit: CommitSettings = field(default_factory=CommitSettings)
    agents: Mapping[str, str] = field(default_factory=dict)  # the text of each agent file, by name
    revision: int = 1  # grows with every change of the settings
    agent: str = "implement"  # of tasks that name none
    known_red: tuple[str, ...] = ()  # tests that fail on the base and count against no task
    prose: Mapping[str, str] = field(
        default_factory=dict
    )  # of the plan (""), and of phases by title
    recorded: str = ""  # the directory of recordings that all its agents play
    fast: bool = False  # they play without pauses


_OF_THE_HOST: Final = ("root", "first_port", "ports", "spare_ram_mb", "spare_disk_mb")
"""Workspace settings that describe a machine, not a run."""


class SandboxSettings(Struct, frozen=True, kw_only=True):
    """The parts of a box that all programs share."""

    image: str = ""  # of containers, or a path ending in devcontainer.json; without it none
    engine: tuple[str, ...] = ()  # the container engine; without it podman, then docker
    options: tuple[str, ...] = ()  # further words after `run`
    read: tuple[str, ...] = ()  # paths that every box reads: `/…` or `~/…`
    write: tuple[str, ...] = ()  # paths that every box writes, such as a cache


class RecordSettings(Struct, frozen=True, kw_only=True):
    """Recordings of attempts, which `weft recordings play` and `runs: recorded` play."""

    on: bool = False  # record each attempt when it ends, below .git/weft/recordings


class NotifySettings(Struct, frozen=True, kw_only=True):
    """The command for notices that a run has ended or needs a person."""

    command: tuple[str, ...] | None = None  # a command line; gets a summary on standard input
    timeout: float = 30  # seconds it may take


class PublishSettings(Struct, frozen=True, kw_only=True):
    """The command that opens pull requests instead of `gh` or `glab`."""

    command: tuple[str, ...] | None = None  # words; title, body, base and head follow


class PlanSettings(Struct, frozen=True, kw_only=True):
    """Choices for the tasks of plans."""

    predict: bool = True  # the files of tasks that name none are predicted
    split: str = "ask"  # "ask": `weft plan show` proposes splits; "auto": runs split; "off"


class Stated(Struct, frozen=True, kw_only=True):
    """A limit of a configuration, and its source."""

    value: int
    source: str


class Config(Struct, frozen=True, kw_only=True):
    store: str | None = None  # URL of the store; without it an SQLite file in the git directory
    listen_url: str | None = None  # URL of the server itself, where `url` is a pooler's
    server: str | None = None  # URL of a `weft serve` on that store, for the agents started here
    limits: Mapping[str, int] = field(default_factory=lambda: DEFAULT_LIMITS)
    stated: Mapping[str, Stated] = field(default_factory=dict)
    slots: int | None = None  # MAX_CONCURRENT_TASKS
    tuning: Tuning = field(default_factory=Tuning)
    workspace: WorkspaceSettings = field(default_factory=WorkspaceSettings)
    gate: GateSettings = field(default_factory=GateSettings)
    commit: CommitSettings = field(default_factory=CommitSettings)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    notify: NotifySettings = field(default_factory=NotifySettings)
    record: RecordSettings = field(default_factory=RecordSettings)
    publish: PublishSettings = field(default_factory=PublishSettings)
    plan: PlanSettings = field(default_factory=PlanSettings)
    known_red: tuple[str, ...] = ()  # of a run: tests that fail on its base

    def with_run(self, settings: RunSettings) -> Config:
        """Return this configuration with a run's own gate and workspace settings.

        The number of parallel checks, ports, memory and disk stay those of this process.
        """
        host = {name: getattr(self.workspace, name) for name in _OF_THE_HOST}
        return replace(
            self,
            gate=replace(settings.gate, slots=self.gate.slots),
            workspace=replace(settings.workspace, **host),
            commit=settings.commit,
            known_red=settings.known_red,
        )

    @property
    def worker_slots(self) -> int:
        """Number of parallel attempts of a worker process by default."""
        return WORKER_SLOTS if self.slots is None else self.slots

    @property
    def api_slots(self) -> int:
        """Number of parallel tasks of a member by default."""
        return API_SLOTS if self.slots is None else self.slots


SECTIONS: Final[Mapping[str, type[Struct] | None]] = {
    "store": None,  # `url` and `listen_url`
    "server": None,  # only `url`
    "limits": None,  # names of limits
    "gate": GateSettings,
    "workspace": WorkspaceSettings,
    "commit": CommitSettings,
    "sandbox": SandboxSettings,
    "notify": NotifySettings,
    "record": RecordSettings,
    "publish": PublishSettings,
    "plan": PlanSettings,
    "tuning": Tuning,
}
"""The tables of weft.toml, with the records that hold their keys."""


def load(directory: Path, environment: Mapping[str, str]) -> Config:
    """Read the configuration of a repository, with the environment on top."""
    return parse(_read(directory / FILE), environment)


def parse(text: str, environment: Mapping[str, str]) -> Config:
    try:
        table = _toml(text) if text else {}
    except (ValueError, RecursionError) as error:  # a number or a nesting beyond Python's own
        raise InputError(f"{FILE} is not valid TOML: {error}.") from error
    _reject_unknown(table, SECTIONS, FILE)
    store = _section(table, "store")
    _reject_unknown(store, ("url", "listen_url"), f"[store] in {FILE}")
    stated = _limits_of_file(_section(table, "limits"))
    stated |= _limits_of_environment(environment, stated)
    return Config(
        store=environment.get("WEFT_STORE") or _text(store, "url"),
        listen_url=environment.get("WEFT_LISTEN_URL") or _text(store, "listen_url"),
        server=_server(_section(table, "server")),
        limits=_limits(stated),
        stated=stated,
        slots=_slots(environment),
        tuning=_tuning(_section(table, "tuning"), environment),
        workspace=_workspace(_section(table, "workspace")),
        gate=_gate(_section(table, "gate")),
        commit=_commit(_section(table, "commit")),
        sandbox=_sandbox(_section(table, "sandbox")),
        notify=_notify(_section(table, "notify")),
        publish=_publish(_section(table, "publish")),
        plan=_plan(_section(table, "plan")),
        record=_record(_section(table, "record")),
    )


def _toml(text: str) -> dict[str, Any]:
    import tomllib  # late: most commands do without it

    return tomllib.loads(text)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read {path}: {error}.") from error


def _section(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = table.get(name, {})
    if not isinstance(section, dict):
        raise InputError(f"[{name}] in {FILE} must be a table.")
    return section


def _text(section: Mapping[str, Any], key: str) -> str | None:
    value = section.get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(f"{key} in {FILE} must be text, not {value!r}.")
    return value


def _server(section: Mapping[str, Any]) -> str | None:
    _reject_unknown(section, ("url",), f"[server] in {FILE}")
    url = _text(section, "url")
    if url is not None and not url.startswith(("http://", "https://")):
        raise InputError(f"A server is named by a URL like http://127.0.0.1:7337, not {url!r}.")
    return url and url.rstrip("/")


def _limits(stated: Mapping[str, Stated]) -> dict[str, int]:
    """Return the limits of a new store; its stages of work leave room for all agents of a run."""
    given = {name: limit.value for name, limit in stated.items()}
    work = {
        name: max(DEFAULT_LIMITS[name], given.get("run/agents", 0))
        for name in ("stage/test", "stage/implement")
    }
    return {**DEFAULT_LIMITS, **work, **given}


def _limits_of_file(section: Mapping[str, Any]) -> dict[str, Stated]:
    for name in section:
        if not is_settable(name):
            raise InputError(f"{FILE} sets an unknown limit {name!r}.{suggest_limit(name)}")
    return {
        name: Stated(value=_count(value, f"the limit {name!r} in {FILE}"), source=FILE)
        for name, value in section.items()
    }


def _limits_of_environment(
    environment: Mapping[str, str], of_file: Mapping[str, Stated]
) -> dict[str, Stated]:
    prefix = "WEFT_LIMIT_"
    known = {variable(name): name for name in (*DEFAULT_LIMITS, *of_file)}
    values = {}
    for key, text in environment.items():
        if not key.startswith(prefix):
            continue
        name = known.get(key)
        if name is None and key.startswith(prefix + "PROVIDER_"):
            name = "provider:" + key.removeprefix(prefix + "PROVIDER_").lower()
        if name is None or not is_settable(name):
            shown = key if key.isprintable() else repr(key)
            near = _near(key, known)
            raise InputError(f"The environment variable {shown} names no limit.{near}")
        values[name] = Stated(value=_count(text, key), source=key)
    return values


def variable(limit: str) -> str:
    """Return the environment variable of a limit: `stage/test` -> `WEFT_LIMIT_STAGE_TEST`."""
    return "WEFT_LIMIT_" + "".join(c.upper() if c.isalnum() else "_" for c in limit)


def is_settable(name: str) -> bool:
    return name in DEFAULT_LIMITS or any(
        name.startswith(prefix) and len(name) > len(prefix) and name.isprintable()
        for prefix in SETTABLE_PREFIXES
    )


def suggest_limit(name: str) -> str:
    return _near(name, DEFAULT_LIMITS)


def _slots(environment: Mapping[str, str]) -> int | None:
    text = environment.get("MAX_CONCURRENT_TASKS")
    if text is None:
        return None
    slots = _count(text, "MAX_CONCURRENT_TASKS")
    if slots < 1:
        raise InputError("MAX_CONCURRENT_TASKS must be at least 1.")
    return slots


def _tuning(section: Mapping[str, Any], environment: Mapping[str, str]) -> Tuning:
    known = {setting.name: setting for setting in fields(Tuning)}
    _reject_unknown(section, known, f"[tuning] in {FILE}")
    sources = {name: (f"{name} in [tuning] of {FILE}", value) for name, value in section.items()}
    variables = {_TUNED + name.upper(): name for name in known}
    for key, text in environment.items():
        if key.startswith(_TUNED):
            if key not in variables:
                raise InputError(f"The variable {key!r} names no number.{_near(key, variables)}")
            sources[variables[key]] = (key, _parse_number(text, known[variables[key]].type))
    for name, (where, value) in sources.items():
        kind = known[name].type
        if kind is bool:
            _switch(value, where)
            continue
        if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
            raise InputError(f"{where} must be a number, not {value!r}.")
        if not 0 < value < math.inf and not (name == "capacity_wait" and value == 0):
            raise InputError(f"{where} must be above 0, not {value}.")
    return Tuning(**{name: value for name, (_, value) in sources.items()})


def _parse_number(text: str, kind: object) -> object:
    """Return the value of a variable; a text that is none is refused like a text in the file."""
    if kind is bool:
        return {"1": True, "true": True, "0": False, "false": False}.get(text.lower(), text)
    try:
        return int(text) if kind is int else float(text)
    except ValueError:
        return text


def _workspace(section: Mapping[str, Any]) -> WorkspaceSettings:
    where = f"[workspace] in {FILE}"
    _reject_unknown(section, (setting.name for setting in fields(WorkspaceSettings)), where)
    return WorkspaceSettings(
        root=_text(section, "root") or "",
        copy=_texts(section.get("copy", []), f"copy of {where}"),
        link=_texts(section.get("link", []), f"link of {where}"),
        setup=_command(section.get("setup"), f"setup of {where}"),
        teardown=_command(section.get("teardown"), f"teardown of {where}"),
        keep=_texts(section.get("keep", []), f"keep of {where}"),
        timeout=_seconds(section.get("timeout", WorkspaceSettings().timeout), where),
        **{
            name: _count(section[name], f"{name} of {where}")
            for name in ("first_port", "ports", "spare_ram_mb", "spare_disk_mb", "max_file_mb")
            if name in section
        },
    )


def _gate(section: Mapping[str, Any]) -> GateSettings:
    where = f"[gate] in {FILE}"
    _reject_unknown(section, (setting.name for setting in fields(GateSettings)), where)
    squash = section.get("squash", GateSettings().squash)
    if squash not in ("task", "story"):
        raise InputError(f'squash of {where} must be "task" or "story", not {squash!r}.')
    review = section.get("review", GateSettings().review)
    if review not in ("", "you"):
        raise InputError(f'review of {where} must be "you" or "", not {review!r}.')
    every_commit = _switch(section.get("every_commit", False), f"every_commit of {where}")
    slots = _count(section.get("slots", GateSettings().slots), f"slots of {where}")
    if not 1 <= slots <= 256:
        raise InputError(f"slots of {where} must be between 1 and 256, not {slots}.")
    return GateSettings(
        run=_command(section.get("run"), f"run of {where}"),
        slots=slots,
        timeout=_seconds(section.get("timeout", GateSettings().timeout), where),
        every_commit=every_commit,
        squash=squash,
        review=review,
        env=_texts(section.get("env", []), f"env of {where}"),
        sandbox=_box_kind(section.get("sandbox", BoxKind.ON), f"sandbox of {where}"),
        network=_switch(section.get("network", False), f"network of {where}"),
    )


def _commit(section: Mapping[str, Any]) -> CommitSettings:
    where = f"[commit] in {FILE}"
    _reject_unknown(section, (setting.name for setting in fields(CommitSettings)), where)
    style = section.get("style", CommitSettings().style)
    if style not in ("plain", "conventional"):
        raise InputError(f'style of {where} must be "plain" or "conventional", not {style!r}.')
    return CommitSettings(style=style)


def _box_kind(value: object, what: str) -> BoxKind:
    if not isinstance(value, str) or value not in tuple(BoxKind):
        raise InputError(f"{what} must be {', '.join(BoxKind)}, not {value!r}.")
    return BoxKind(value)


def _sandbox(section: Mapping[str, Any]) -> SandboxSettings:
    where = f"[sandbox] in {FILE}"
    names = [setting.name for setting in fields(SandboxSettings)]
    _reject_unknown(section, names, where)
    settings = SandboxSettings(
        image=_text(section, "image") or "",
        **{
            name: _texts(section[name], f"{name} of {where}")
            for name in ("engine", "options", "read", "write")
            if name in section
        },
    )
    for path in (*settings.read, *settings.write):
        if not path.startswith(("/", "~/")):
            raise InputError(f"{where} names {path!r}; write paths as /… or ~/….")
    return settings


def _notify(section: Mapping[str, Any]) -> NotifySettings:
    where = f"[notify] in {FILE}"
    _reject_unknown(section, (setting.name for setting in fields(NotifySettings)), where)
    return NotifySettings(
        command=_command(section.get("command"), f"command of {where}"),
        timeout=_seconds(section.get("timeout", NotifySettings().timeout), where),
    )


def _publish(section: Mapping[str, Any]) -> PublishSettings:
    where = f"[publish] in {FILE}"
    _reject_unknown(section, (setting.name for setting in fields(PublishSettings)), where)
    command = section.get("command")
    if isinstance(command, str):
        raise InputError(
            f"command of {where} must be a list of words, since nothing goes through a shell: "
            f'command = ["my-forge", "open"].'
        )
    return PublishSettings(command=_command(command, f"command of {where}"))


def _plan(section: Mapping[str, Any]) -> PlanSettings:
    where = f"[plan] in {FILE}"
    _reject_unknown(section, (setting.name for setting in fields(PlanSettings)), where)
    split = section.get("split", PlanSettings().split)
    if split not in ("ask", "auto", "off"):
        raise InputError(f'split of {where} must be "ask", "auto" or "off", not {split!r}.')
    return PlanSettings(
        predict=_switch(section.get("predict", True), f"predict of {where}"), split=split
    )


def _record(section: Mapping[str, Any]) -> RecordSettings:
    where = f"[record] in {FILE}"
    _reject_unknown(section, (setting.name for setting in fields(RecordSettings)), where)
    return RecordSettings(on=_switch(section.get("on", False), f"on of {where}"))


def _switch(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{what} must be true or false, not {value!r}.")
    return value


def _command(value: object, what: str) -> tuple[str, ...] | None:
    """Parse a command: a line for the shell, or a list of words without a shell."""
    if isinstance(value, str) and value.strip():
        return ("sh", "-c", value)
    return None if value is None else _texts(value, what) or None


def command_line(command: Iterable[str]) -> str:
    """Return a command as `weft.toml` spells it: the line for the shell, or its words quoted."""
    words = list(command)
    if words[:2] == ["sh", "-c"] and len(words) == 3:
        return words[2]
    import shlex

    return shlex.join(words)


def _seconds(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 86400:
        raise InputError(f"timeout of {where} must be seconds, above 0, not {value!r}.")
    return float(value)


def _texts(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise InputError(f"{what} must be a list of texts, not {value!r}.")
    return tuple(value)


def _count(value: object, what: str) -> int:
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= 2**50:
        raise InputError(f"{what} must be a whole number, 0 or more, not {value!r}.")
    return number


def _reject_unknown(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    names = list(known)
    for name in table:
        if name not in names:
            raise InputError(f"{where} has an unknown entry {name!r}.{_near(name, names)}")


def _near(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    from difflib import get_close_matches

    close = get_close_matches(name, names, n=1)
    return f" Did you mean {close[0]}?" if close else f" Known: {', '.join(names)}."
