"""Why a candidate does not fit, as records and as a text for people and for the next prompt.

Git's own findings are translated; what git does not look for (case-only clashes, paths no
checkout may contain) is added by `merge`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from weft.git.merge_tree import Answer, ConflictStage, MergeMessage
from weft.git.objects import SUBMODULE, SYMLINK

MOST_TEXT: Final = 16_000
"""Characters of a report: enough for an agent to see what it met, little of its context."""
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
    CASE = "case"  # two paths that a case-insensitive file system takes for one
    PATH = "path"  # a path no checkout may contain, such as `.git/config`
    UNRELATED = "unrelated"  # no common history with trunk
    OTHER = "other"  # a kind that a newer git knows


class FileConflict(Struct, frozen=True, kw_only=True):
    kind: ConflictKind
    paths: tuple[str, ...]  # bytes that are no UTF-8 as surrogates, as the file system has them
    text: str  # what happened, in a sentence
    hunks: str = ""  # the contested lines between conflict markers, if there are any


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


def find_conflicts(answer: Answer, names: Mapping[str, str]) -> list[FileConflict]:
    """What git found, one record per finding. `names` stands in for commit ids in texts."""
    findings = [one for one in answer.messages if one.kind.startswith("CONFLICT")]
    binary = {
        path for one in findings if _kind_of(one.kind) is ConflictKind.BINARY for path in one.paths
    }
    conflicts: dict[FileConflict, None] = {}
    for one in findings:
        kind = _refine(_kind_of(one.kind), one, answer.stages)
        if kind is ConflictKind.CONTENT and binary.intersection(one.paths):
            continue  # git says both of a binary file
        paths = tuple(as_text(path) for path in one.paths)
        conflicts[FileConflict(kind=kind, paths=paths, text=_sentence(one.text, names))] = None
    if not conflicts:
        paths = tuple(dict.fromkeys(as_text(stage.path) for stage in answer.stages))
        return [
            FileConflict(
                kind=ConflictKind.OTHER, paths=paths, text="git could not merge these paths."
            )
        ]
    return list(conflicts)


def find_hunks(merged: bytes, names: Mapping[str, str]) -> str:
    """The parts of a merged file that stand between conflict markers, with a few lines around."""
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
    """First and last line of each conflict."""
    start: int | None = None
    for number, line in enumerate(lines):
        if line.startswith(b"<<<<<<<"):
            start = number
        elif line.startswith(b">>>>>>>") and start is not None:
            yield start, number
            start = None


def report(conflicts: Sequence[FileConflict], most: int = MOST_TEXT) -> str:
    """All of it as one readable text of bounded size."""
    parts = []
    for one in conflicts:
        where = ", ".join(_shown(path) for path in one.paths)
        part = f"{one.kind} conflict in {where}\n  {one.text}\n" if where else f"{one.text}\n"
        if one.hunks:
            part += "".join(f"  | {line}\n" for line in one.hunks.splitlines())
        parts.append(part)
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
    """Git calls everything it merges by content `contents`; the sides tell what it was."""
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
    """Git's message without its `CONFLICT (…):`, which the kind already says."""
    whole = _decoded(text, names).strip()
    if whole.startswith("CONFLICT") and ": " in whole:
        whole = whole.partition(": ")[2]
    return _shown(whole)


def _decoded(text: bytes, names: Mapping[str, str]) -> str:
    decoded = text.decode(errors="backslashreplace")
    for id, name in names.items():
        decoded = decoded.replace(id, name)
    return decoded


def _shown(path: str) -> str:
    """A path as it can be printed: control characters and stray bytes escaped."""
    plain = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in plain)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[: text.rfind("\n", 0, most) + 1] + "… and more\n"
