"""Conflicts of a merge, as records and as a text for people and for the next prompt.

These are git's findings. `merge` adds conflicts that git does not look for: paths that differ in
case only, and paths that no checkout may contain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from weft.git.object_store import ConflictStage, MergeAnswer, MergeMessage
from weft.git.objects import SUBMODULE, SYMLINK

MOST_TEXT: Final = 16_000
"""Characters of a report: enough for an agent, and little of its context."""
_MOST_HUNK: Final = 4_000
_CONTEXT: Final = 3


class ConflictKind(StrEnum):
    CONTENT = "content"
    BINARY = "binary"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    MODE = "mode"
    DELETE_MODIFY = "delete/modify"
    DIRECTORY_FILE = "directory/file"
    RENAME_RENAME = "rename/rename"
    RENAME_DELETE = "rename/delete"
    RENAME_ADD = "rename/add"
    DIRECTORY_RENAME = "directory rename"
    CASE = "case"  # two paths that are the same file on a case-insensitive file system
    PATH = "path"  # a path no checkout may contain, such as `.git/config`
    UNRELATED = "unrelated"  # no common history with trunk
    OTHER = "other"  # a kind that a newer git knows


class FileConflict(Struct, frozen=True, kw_only=True):
    kind: ConflictKind
    paths: tuple[str, ...]  # bytes that are no UTF-8 as surrogates
    text: str  # a sentence
    hunks: str = ""  # the lines between conflict markers, if there are any


_KINDS: Final = {
    "CONFLICT (contents)": ConflictKind.CONTENT,
    "CONFLICT (binary)": ConflictKind.BINARY,
    "CONFLICT (file/directory)": ConflictKind.DIRECTORY_FILE,
    "CONFLICT (distinct modes)": ConflictKind.MODE,
    "CONFLICT (modify/delete)": ConflictKind.DELETE_MODIFY,
    "CONFLICT (rename/rename)": ConflictKind.RENAME_RENAME,
    "CONFLICT (rename involved in collision)": ConflictKind.RENAME_ADD,
    "CONFLICT (rename/delete)": ConflictKind.RENAME_DELETE,
}
_FAMILIES: Final = {
    "directory rename": ConflictKind.DIRECTORY_RENAME,
    "submodule": ConflictKind.SUBMODULE,
}


def find_conflicts(answer: MergeAnswer, names: Mapping[str, str]) -> list[FileConflict]:
    """Return git's findings; in texts, `names` replace commit ids."""
    findings = [message for message in answer.messages if message.kind.startswith("CONFLICT")]
    binary = {
        path
        for finding in findings
        if _kind_of(finding.kind) is ConflictKind.BINARY
        for path in finding.paths
    }
    conflicts: dict[FileConflict, None] = {}
    for finding in findings:
        kind = _refine(_kind_of(finding.kind), finding, answer.stages)
        if kind is ConflictKind.CONTENT and binary.intersection(finding.paths):
            continue  # git reports a binary file as both kinds
        paths = tuple(map(as_text, finding.paths))
        conflicts[FileConflict(kind=kind, paths=paths, text=_sentence(finding.text, names))] = None
    if conflicts:
        return list(conflicts)
    paths = tuple(dict.fromkeys(as_text(stage.path) for stage in answer.stages))
    return [
        FileConflict(kind=ConflictKind.OTHER, paths=paths, text="git could not merge these paths.")
    ]


def find_hunks(merged: bytes, names: Mapping[str, str]) -> str:
    """Return the parts of a merged file between conflict markers, with a few lines around."""
    lines = merged.splitlines(keepends=True)
    shown: list[str] = []
    size = after = 0
    for start, end in _marked(lines):
        begin = max(after, start - _CONTEXT)
        if begin > after or not shown:
            shown.append(f"@@ line {begin + 1}\n")
        after = min(len(lines), end + 1 + _CONTEXT)
        shown += [_decoded(line, names) for line in lines[begin:after]]
        size += sum(map(len, lines[begin:after]))
        if size > _MOST_HUNK:
            break
    return _cut("".join(shown), _MOST_HUNK)


def _marked(lines: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the first and last line number of each conflict."""
    start: int | None = None
    for number, line in enumerate(lines):
        if line.startswith(b"<<<<<<<"):
            start = number
        elif line.startswith(b">>>>>>>") and start is not None:
            yield start, number
            start = None


def describe(conflicts: Sequence[FileConflict], most: int = MOST_TEXT) -> str:
    """Return a readable text of bounded size."""
    parts = []
    for conflict in conflicts:
        where = ", ".join(map(_printable, conflict.paths))
        text = f"{conflict.text}\n"
        part = f"{conflict.kind} conflict in {where}\n  {text}" if where else text
        parts.append(part + "".join(f"  | {line}\n" for line in conflict.hunks.splitlines()))
    return _cut("\n".join(parts), most)


def as_text(path: bytes) -> str:
    return path.decode(errors="surrogateescape")


def as_bytes(path: str) -> bytes:
    return path.encode(errors="surrogateescape")


def _kind_of(finding: str) -> ConflictKind:
    if finding in _KINDS:
        return _KINDS[finding]
    for part, kind in _FAMILIES.items():
        if part in finding:
            return kind
    return ConflictKind.OTHER


def _refine(
    kind: ConflictKind, finding: MergeMessage, stages: Sequence[ConflictStage]
) -> ConflictKind:
    """Tell submodules, links and modes apart, which git calls `contents` too."""
    if kind is not ConflictKind.CONTENT:
        return kind
    sides = [stage for stage in stages if stage.path in finding.paths]
    modes = {stage.mode for stage in sides}
    if SUBMODULE in modes:
        return ConflictKind.SUBMODULE
    if SYMLINK in modes:
        return ConflictKind.SYMLINK
    if len(modes) > 1 and len({stage.id for stage in sides}) == 1:
        return ConflictKind.MODE
    return kind


def _sentence(text: bytes, names: Mapping[str, str]) -> str:
    """Return git's message without its `CONFLICT (…):`, which the kind repeats."""
    whole = _decoded(text, names).strip()
    if whole.startswith("CONFLICT") and ": " in whole:
        whole = whole.partition(": ")[2]
    return _printable(whole)


def _decoded(text: bytes, names: Mapping[str, str]) -> str:
    decoded = text.decode(errors="backslashreplace")
    for id, name in names.items():
        decoded = decoded.replace(id, name)
    return decoded


def _printable(text: str) -> str:
    """Escape control characters and stray bytes."""
    plain = text.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in plain)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[: text.rfind("\n", 0, most) + 1] + "… and more\n"
