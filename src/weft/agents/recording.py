"""A recording of an attempt: the agent's process seen from outside, without secrets. Pure.

`choose` finds the recording that an attempt plays: of the same task and stage, with the same
prompt. Parts of a prompt that differ from run to run (commits, paths, times, the report of a
failure) do not count.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from weft.errors import InputError, WeftError

VERSION: Final = 1
LARGEST: Final = 64 << 20
"""Bytes of a recording."""

MOST_LINES: Final = 200_000
LONGEST_LINE: Final = 1 << 20
MOST_CALLS: Final = 2_000

_ID: Final = re.compile(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{7,64}\b")
_PATH: Final = re.compile(r"(?<![\w.<])/(?:[\w.@+-]+/)+[\w.@+-]*")
_TIME: Final = re.compile(r"\b[0-9]+(?:\.[0-9]+)? ?(?:ms|s|min|h)\b")
_REFUSAL: Final = re.compile(
    r"(^## Why the last attempt was refused\n).*?(?=^## |\Z)", re.MULTILINE | re.DOTALL
)


class RecordedLine(Struct, frozen=True, array_like=True):
    at: float  # seconds since the start
    stream: Literal["out", "err"]
    text: str  # bytes that are no text as lone surrogates


class RecordedCall(Struct, frozen=True, kw_only=True):
    """A call of one of weft's tools."""

    at: float
    tool: str
    arguments: Mapping[str, Any]
    answer: str = ""
    refused: bool = False


class RecordedExit(Struct, frozen=True, kw_only=True):
    why: str  # ended, or the reason for which it was ended
    code: int | None = None
    signal: int | None = None


class Recording(Struct, frozen=True, kw_only=True):
    version: int = VERSION
    task: str  # its name in the plan
    run: str | None
    stage: str | None
    agent: str
    attempt: int
    adapter: str  # of the program whose output this is
    argv: tuple[str, ...]
    prompt: str
    digest: str  # of the parts of the prompt that count
    files: tuple[str, ...] = ()  # claims at the start
    lines: tuple[RecordedLine, ...] = ()
    journal: str = ""  # of a program that tells more than it prints
    calls: tuple[RecordedCall, ...] = ()
    tokens: int = 0
    micro_usd: int = 0
    outcome: str = ""
    exit: RecordedExit
    base_tree: str = ""  # of the workspace at the start
    tree: str = ""  # and at the end
    patch: str = ""  # from the one to the other
    after: tuple[str, ...] = ()  # landings (`1.2`) and ends of attempts (`1.2/1`) meanwhile
    cut: bool = False  # lines or calls were left out


class RecordingMiss(WeftError):
    """No recording fits an attempt."""


def digest_prompt(prompt: str, run: str | None) -> str:
    return "sha256:" + hashlib.sha256(normalise_prompt(prompt, run).encode()).hexdigest()


def normalise_prompt(prompt: str, run: str | None) -> str:
    """Return the parts of a prompt that are the same in every run of the same plan."""
    text = prompt.replace(run, "<run>") if run else prompt
    text = _REFUSAL.sub(r"\1<report>\n", text)
    text = _ID.sub("<id>", text)
    text = _PATH.sub("<path>", text)
    return _TIME.sub("<time>", text).encode("utf-8", "replace").decode()


def encode_recording(recording: Recording) -> bytes:
    return encode_json(msgspec.to_builtins(recording)) + b"\n"


def encode_json(value: Any) -> bytes:
    """Encode as ASCII, so that bytes that are no text, kept as lone surrogates, survive."""
    return json.dumps(value, indent=1).encode()


def decode_recording(data: bytes, name: str) -> Recording:
    """Read a recording; raise InputError that names the file."""
    if len(data) > LARGEST:
        raise InputError(f"{name} is larger than {LARGEST >> 20} MB, the bound of a recording.")
    try:
        value = json.loads(data)
        version = value.get("version") if isinstance(value, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise InputError(
                f"{name} has version {version} of recordings, and this weft knows {VERSION}; "
                "upgrade weft."
            )
        return msgspec.convert(value, Recording)
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"{name} is no recording of weft: {error}.") from error


def choose(
    recordings: Iterable[Recording],
    *,
    task: str,
    stage: str | None,
    attempt: int,
    prompt: str,
    run: str | None,
) -> Recording:
    """Return the recording that an attempt plays; raise RecordingMiss with the nearest one."""
    known = list(recordings)
    same = [each for each in known if (each.task, each.stage) == (task, stage)]
    digest = digest_prompt(prompt, run)
    fitting = sorted(
        (each for each in same if each.digest == digest), key=lambda each: each.attempt
    )
    if fitting:
        return next((each for each in fitting if each.attempt >= attempt), fitting[-1])
    raise RecordingMiss(_describe_miss(known, same, task, stage, attempt, prompt, run))


def _describe_miss(
    known: Sequence[Recording],
    same: Sequence[Recording],
    task: str,
    stage: str | None,
    attempt: int,
    prompt: str,
    run: str | None,
) -> str:
    about = f"No recording fits attempt {attempt} of task {task}"
    if not known:
        return f"{about}: there are no recordings."
    if not same:
        near = difflib.get_close_matches(task, {each.task for each in known}, n=1, cutoff=0.0)
        return f"{about} ({stage or 'no stage'}): no recording is of this task; near is {near[0]}."
    wanted = normalise_prompt(prompt, run)
    nearest = max(same, key=lambda each: (_alike(each, wanted), -abs(each.attempt - attempt)))
    difference = _first_difference(nearest, wanted)
    return f"{about}: nearest is attempt {nearest.attempt} of it, but {difference}"


def _alike(recording: Recording, wanted: str) -> int:
    """Count the lines at the beginning that are equal."""
    before = normalise_prompt(recording.prompt, recording.run).splitlines()
    pairs = zip(before, wanted.splitlines(), strict=False)
    return next((n for n, (old, new) in enumerate(pairs) if old != new), len(before))


def _first_difference(recording: Recording, wanted: str) -> str:
    old = normalise_prompt(recording.prompt, recording.run).splitlines()
    new = wanted.splitlines()
    at = _alike(recording, wanted)
    was = old[at] if at < len(old) else ""
    now = new[at] if at < len(new) else ""
    return f"line {at + 1} of its prompt was {was[:200]!r} and is {now[:200]!r}."
