"""The index of a repository's history: a file beside the store that grows with the commits.

The file is a row of frames, each with its length and a checksum: first a whole history, then the
commits of each later reading. A frame that a crash cut short is ignored, and its commits are read
again. The index is built anew if the file is damaged or if its last commit is no longer part of the
history. A single process writes at a time; readers need no lock.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from weft import git
from weft.git.past_commits import PastCommit, list_past, read_past
from weft.planning.history import MOST_FILES, History
from weft.workspace.locks import Lock

log = logging.getLogger(__name__)

MOST_COMMITS: Final = 50_000
"""Older commits say little about the files of today."""

_MAGIC: Final = b"weft history 1\n"
_FRAME: Final = struct.Struct("=QI")  # length and checksum
_MOST_ADDED: Final = 2_000  # commits after the first frame; then the file is written anew
_MANY: Final = 10_000  # commits that take some seconds to read
_LONGEST_MESSAGE: Final = 4_000


_KeptCommit = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]
"""Message, files and renames: the arguments of `History.add`."""


class _Whole(Struct, frozen=True, tag=True):
    tip: str
    history: History


class _Added(Struct, frozen=True, tag=True):
    tip: str
    commits: list[_KeptCommit]


class IndexedHistory(Struct, frozen=True, kw_only=True):
    """The history of a commit."""

    history: History
    tip: str  # the commit; empty: there is none
    added: int = 0  # commits in the file after its first frame


def index_directory(common: Path) -> Path:
    """Return the directory of the index in a git directory."""
    return common / "weft" / "history"


def read_index(root: Path, tip: str) -> IndexedHistory:
    """Return the history of a commit; read from git only the commits that the index lacks."""
    directory = index_directory(git.common_directory(root))
    known = _read_file(directory / "commits")
    if known is not None and known.tip == tip:
        return known
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = Lock(directory / "lock")
    except OSError as error:
        log.warning("could not lock the index of history: %s", error)
        return _build(root, tip)
    try:
        lock.wait()
        known = _read_file(directory / "commits")
        return known if known is not None and known.tip == tip else _update(root, tip, known)
    finally:
        lock.close()


def _update(root: Path, tip: str, known: IndexedHistory | None) -> IndexedHistory:
    file = index_directory(git.common_directory(root)) / "commits"
    if known is None or not _contains(root, tip, known.tip):
        built = _build(root, tip)
        _write(file, built)
        return built
    ids = list_past(root, tip, most=MOST_COMMITS, known=known.tip)
    commits = [_kept(commit) for commit in read_past(root, ids)]
    for commit in commits:
        known.history.add(*commit)
    grown = IndexedHistory(history=known.history, tip=tip, added=known.added + len(commits))
    if grown.added > _MOST_ADDED:
        _write(file, grown)
    else:
        _append(file, msgspec.msgpack.encode(_Added(tip=tip, commits=commits)))
    return grown


def _contains(root: Path, tip: str, earlier: str) -> bool:
    try:
        return git.is_ancestor(root, earlier, tip)
    except git.GitFailed:  # the commit is gone: the history was rewritten
        return False


def _build(root: Path, tip: str) -> IndexedHistory:
    history = History()
    ids = list_past(root, tip, most=MOST_COMMITS)
    if len(ids) > _MANY:
        log.warning("reading %s commits, once, to predict files from them", f"{len(ids):,}")
    for commit in read_past(root, ids):
        history.add(*_kept(commit))
    return IndexedHistory(history=history, tip=tip)


def _kept(commit: PastCommit) -> _KeptCommit:
    """Return the part of a commit that the history counts; bytes that are no text become `?`."""
    return (
        _as_text(commit.message[:_LONGEST_MESSAGE]),
        tuple(map(_as_text, commit.files[: MOST_FILES + 1])),
        tuple((_as_text(old), _as_text(new)) for old, new in commit.renames),
    )


def _as_text(name: str) -> str:
    return name.encode(errors="replace").decode()


def _read_file(file: Path) -> IndexedHistory | None:
    """Read the index; return None if there is none that can be used."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    known: IndexedHistory | None = None
    try:
        for payload in _frames(data):
            frame = msgspec.msgpack.decode(payload, type=_Whole | _Added)
            if isinstance(frame, _Whole):
                known = IndexedHistory(history=frame.history, tip=frame.tip)
            elif known is not None:
                for commit in frame.commits:
                    known.history.add(*commit)
                added = known.added + len(frame.commits)
                known = IndexedHistory(history=known.history, tip=frame.tip, added=added)
    except (msgspec.DecodeError, ValueError, IndexError) as error:
        log.warning("the index of history %s is damaged and is built anew: %s", file, error)
        return None
    return known


def _frames(data: bytes) -> Iterator[bytes]:
    """Yield the whole frames of a file; stop at a frame that is cut short or damaged."""
    at = len(_MAGIC)
    if data[:at] != _MAGIC:
        return
    while at + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, at)
        payload = data[at + _FRAME.size : at + _FRAME.size + length]
        if len(payload) < length or zlib.crc32(payload) != checksum:
            return
        yield payload
        at += _FRAME.size + length


def _framed(payload: bytes) -> bytes:
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def _write(file: Path, index: IndexedHistory) -> None:
    payload = msgspec.msgpack.encode(_Whole(tip=index.tip, history=index.history))
    save_file(file, _MAGIC + _framed(payload))


def _append(file: Path, payload: bytes) -> None:
    """Add a frame behind the whole frames; the lock is held."""
    end = len(_MAGIC) + sum(_FRAME.size + len(frame) for frame in _frames(file.read_bytes()))
    with file.open("r+b") as index:
        index.truncate(end)
        index.seek(end)
        index.write(_framed(payload))


def save_file(file: Path, data: bytes) -> None:
    """Replace a file as a whole; a file that cannot be saved is made again the next time."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        draft.replace(file)
    except OSError as error:
        log.warning("could not save the index of history: %s", error)
        draft.unlink(missing_ok=True)
