"""Recordings on disk: made from the directory of an ended attempt, kept as files, read and played.

A recording holds no secret: its lines, prompt, command line, calls and patch go through the store's
redactor, as all text of agents does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import to_builtins
from msgspec.structs import replace

from weft import git
from weft.agents import recording
from weft.agents.adapters import ADAPTERS
from weft.agents.adapters.recorded_adapter import TAPE
from weft.agents.agent import RECORDED, Agent
from weft.agents.recording import RecordedCall, RecordedExit, RecordedLine, Recording
from weft.attempt import start_record
from weft.attempt.output_reader import shown
from weft.attempt.start_record import Order
from weft.errors import InputError, Refused, WeftError
from weft.git import git_command
from weft.git.trees import make_patch
from weft.model import TERMINAL, Attempt, Event, State
from weft.process import attempt_files
from weft.process.output_tail import Tail
from weft.project.site import Site
from weft.redaction import Redactor
from weft.store import Store
from weft.store.tasks import list_run, list_run_attempts
from weft.workspace.names import component

PROMPT: Final = "prompt"
"""The prompt of a program that does not read it from standard input."""

GO: Final = "go"
"""Written once a played attempt may end."""

_ENDING: Final = ".recording.json"
_JOURNAL: Final = 1 << 20
_PATIENCE: Final = 30.0  # seconds that a played attempt waits for other attempts and landings


def make_recording(
    root: Path,
    directory: Path,
    attempt: Attempt,
    events: Sequence[Event],
    hide: Redactor,
    *,
    after: tuple[str, ...] = (),
) -> Recording:
    """Make the recording of an ended attempt; `events` are those of its task."""
    order = start_record.find(directory)
    if order is None:
        raise Refused(
            f"Attempt {attempt.number} of task {attempt.task} cannot be recorded: it ran on "
            f"another machine ({attempt.worker}), or `weft clean` has removed its output."
        )
    prompt = hide.redact_text(_read_prompt(directory))
    lines = [*_read_output(directory, events, order, hide), *_read_errors(directory, attempt, hide)]
    calls = _list_calls(events, order)
    base = git.get_commit(root, order.start)
    last = git.get_commit(root, attempt.candidate) if attempt.candidate else base
    return Recording(
        task=order.name,
        run=order.run,
        stage=order.stage,
        agent=order.agent,
        attempt=order.attempt,
        adapter=order.adapter,
        argv=tuple(hide.redact_text(word) for word in order.argv),
        prompt=prompt,
        digest=recording.digest_prompt(prompt, order.run),
        files=order.files,
        lines=tuple(lines[: recording.MOST_LINES]),
        journal=_read_journal(directory, order, hide),
        calls=tuple(calls[: recording.MOST_CALLS]),
        tokens=attempt.tokens,
        micro_usd=attempt.micro_usd,
        outcome=attempt.outcome or "",
        exit=_read_exit(directory),
        base_tree=base.tree,
        tree=last.tree,
        patch=_make_patch(root, base.id, last.id, hide),
        after=after,
        cut=len(lines) > recording.MOST_LINES or len(calls) > recording.MOST_CALLS,
    )


def _read_prompt(directory: Path) -> str:
    for name in (PROMPT, attempt_files.STDIN):
        try:
            return (directory / name).read_bytes().decode(errors="replace")
        except FileNotFoundError:
            continue
    return ""


def _read_output(
    directory: Path, events: Sequence[Event], order: Order, hide: Redactor
) -> Iterator[RecordedLine]:
    """Yield the lines; each has the time of the report in which the store got it."""
    reports = sorted(
        (int(event.data["offset"]), max(0.0, event.at - order.started))
        for event in events
        if event.kind == "progress"
        and event.data.get("attempt") == order.attempt
        and "offset" in event.data
    )
    at, place = 0.0, 0
    for printed in Tail(directory / attempt_files.STDOUT).rest():
        for line, text in zip(printed, shown(printed, hide), strict=True):
            while place < len(reports) and reports[place][0] < line.end:
                place += 1
            at = max(at, reports[place][1]) if place < len(reports) else at
            yield RecordedLine(round(at, 3), "out", _as_text(text))


def _read_errors(directory: Path, attempt: Attempt, hide: Redactor) -> Iterator[RecordedLine]:
    """Yield the lines of standard error, whose times are not known: at the end."""
    at = round(max(0.0, (attempt.ended or attempt.started) - attempt.started), 3)
    for printed in Tail(directory / attempt_files.STDERR).rest():
        for text in shown(printed, hide):
            yield RecordedLine(at, "err", _as_text(text))


def _as_text(text: bytes) -> str:
    return text[: recording.LONGEST_LINE].decode("utf-8", "surrogateescape")


def _read_journal(directory: Path, order: Order, hide: Redactor) -> str:
    journal = ADAPTERS[order.adapter].FACTS.journal
    if journal is None:
        return ""
    try:
        data = (directory / journal.path).read_bytes()[-_JOURNAL:]
    except FileNotFoundError:
        return ""
    return hide.redact_text(data.decode(errors="replace"))


def _list_calls(events: Sequence[Event], order: Order) -> list[RecordedCall]:
    return [
        RecordedCall(
            at=round(max(0.0, event.at - order.started), 3),
            tool=event.data["tool"],
            arguments=event.data["arguments"],
            answer=event.data["answer"],
            refused=event.data["refused"],
        )
        for event in events
        if event.kind == "tool_called" and event.data.get("attempt") == order.attempt
    ]


def _read_exit(directory: Path) -> RecordedExit:
    record = attempt_files.find_record(str(directory / attempt_files.EXIT)) or {"why": "lost"}
    code = record.get("code")
    number = -code if code is not None and code < 0 else None
    return RecordedExit(why=record["why"], code=code if number is None else None, signal=number)


def _make_patch(root: Path, old: str, new: str, hide: Redactor) -> str:
    patch = b"" if old == new else make_patch(root, old, new)
    return hide.redact_line(patch).decode("utf-8", "surrogateescape")


def list_after(
    events: Iterable[Event], names: Mapping[int, str]
) -> dict[tuple[int, int], tuple[str, ...]]:
    """Map the attempts of a run to the landings and the ends of attempts while they ran.

    `events` are the run's, in order; `names` are those of its tasks.
    """
    happened: list[str] = []
    begun: dict[tuple[int, int], int] = {}
    after: dict[tuple[int, int], tuple[str, ...]] = {}
    for event in events:
        if event.task is None or event.task not in names:
            continue
        key = (event.task, int(event.data.get("attempt", 0)))
        match event.kind:
            case "task_admitted":
                begun[key] = len(happened)
            case "task_landed":
                happened.append(names[event.task])
            case "attempt_finished":
                after[key] = tuple(happened[begun.get(key, 0) :])
                happened.append(f"{names[event.task]}/{key[1]}")
    return after


def save_recording(directory: Path, made: Recording) -> Path:
    """Write a recording; a file that is there already is replaced."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / f"{component(made.task)}.{made.attempt}{_ENDING}"
    data = recording.encode_recording(made)
    if len(data) > recording.LARGEST:
        data = recording.encode_recording(replace(made, lines=(), journal="", cut=True))
    if len(data) > recording.LARGEST:
        raise Refused(
            f"Attempt {made.attempt} of {made.task} changed more than a recording may hold "
            f"({recording.LARGEST >> 20} MB)."
        )
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(data)
    beside.replace(path)
    return path


def load_recordings(directory: Path) -> list[Recording]:
    """Read all recordings of a directory, in the order of tasks and attempts."""
    if not directory.is_dir():
        raise InputError(f"There is no directory {directory} with recordings.")
    files = sorted(directory.glob(f"*{_ENDING}"))
    made = [recording.decode_recording(_read(file), str(file)) for file in files]
    return sorted(made, key=lambda each: (each.task, each.attempt))


def load_stream(path: Path, order: Order) -> Recording:
    """Read the output of a program, `<program>/<mode>.jsonl`, as a recording of any attempt.

    Files beside it of the same name hold its standard error (`.err`), its journal (`.journal`), the
    change it made (`.patch`) and its exit code (`.exit`).
    """
    adapter = path.parent.name
    if adapter not in ADAPTERS:
        raise InputError(
            f"{path} is not in a directory called like its program ({', '.join(ADAPTERS)})."
        )
    beside = {
        kind: _find_text(path.with_suffix(f".{kind}"))
        for kind in ("err", "journal", "patch", "exit")
    }
    printed = [("out", line) for line in _find_text(path).splitlines()]
    printed += [("err", line) for line in beside["err"].splitlines()]
    code = int(beside["exit"].strip() or 0)
    return Recording(
        task=order.name,
        run=order.run,
        stage=order.stage,
        agent=order.agent,
        attempt=order.attempt,
        adapter=adapter,
        argv=(),
        prompt="",
        digest="",
        lines=tuple(
            RecordedLine(0.0, "err" if stream == "err" else "out", line) for stream, line in printed
        ),
        journal=beside["journal"],
        exit=RecordedExit(why="ended", code=max(0, code), signal=-code if code < 0 else None),
        patch=beside["patch"],
    )


def _find_text(path: Path) -> str:
    return _read(path).decode("utf-8", "surrogateescape") if path.is_file() else ""


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(recording.LARGEST + 1)


def make_tape(played: Recording, directory: Path) -> dict[str, bytes]:
    """Return the files of the player: the tape, and the journal of the recorded program."""
    tape = {
        "lines": to_builtins(played.lines),
        "calls": to_builtins(played.calls),
        "exit": to_builtins(played.exit),
        "wait": str(directory / GO) if played.after else None,
    }
    journal = ADAPTERS[played.adapter].FACTS.journal
    files = {TAPE: recording.encode_json(tape)}
    if journal is not None and played.journal:
        files[journal.path] = played.journal.encode(errors="replace")
    return files


def apply_patch(place: Path, played: Recording) -> None:
    """Make the recorded change in a workspace."""
    if not played.patch:
        return
    data = played.patch.encode("utf-8", "surrogateescape")
    done = git_command.run(place, "apply", "--whitespace=nowarn", "-", input=data)
    if done.status != 0:
        reason = git_command.failure_reason(done)
        raise WeftError(
            f"The recorded change of attempt {played.attempt} of {played.task} does not apply to "
            f"the files as they are now: {reason}."
        )


def get_recordings(common: Path, run: str | None) -> Path:
    """Return the directory of weft's own recordings of a run, or of tasks without a run."""
    return common / "weft" / "recordings" / component(run or "do")


def find_directory(root: Path, given: str) -> Path:
    """Return the directory that an agent file or a run names."""
    return (root / Path(given).expanduser()).resolve()


def find_played(site: Site, agent: Agent, order: Order, prompt: str) -> Recording | None:
    """Return the recording that an attempt plays; None for an agent that plays none."""
    if agent.runs != RECORDED:
        return None
    hide = site.store.redactor
    place = find_directory(site.root, agent.recordings)
    if place.is_file():
        return load_stream(place, order)
    return recording.choose(
        load_recordings(place),
        task=order.name,
        stage=order.stage,
        attempt=order.attempt,
        prompt=hide.redact_text(prompt),
        run=order.run,
    )


def has_come(store: Store, order: Order, *, now: float) -> bool:
    """Tell whether a played attempt may end: the attempts that ended and the tasks that landed
    while it was recorded have done so again, or it has waited long enough for them."""
    if order.run is None or now - order.started > _PATIENCE:
        return True
    states = {task.name: task.state for task in list_run(store, order.run)}
    numbers = {task.id: task.name for task in list_run(store, order.run)}
    ended = {
        f"{numbers[attempt.task]}/{attempt.number}"
        for attempt in list_run_attempts(store, order.run)
        if attempt.ended is not None
    }
    return all(
        part in ended or states.get(part.partition("/")[0], State.DONE) in TERMINAL
        for part in order.after
    )
