"""Random histories: a trunk, and candidates made on various commits of it or on each other."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gate.repositories import File, Files, Repository
from weft.gate.merge import MergeCandidate

_DIRECTORIES = [b"", b"a/", b"b/", b'a/d\n"p\xff/', b"lib/"]
_NAMES = [
    b"one",
    b"two.py",
    b"three",
    b"A",
    b"sp ace",
    b'quo"te',
    b"new\nline",
    b"\xff\xfe",
    b"four",
]


@dataclass(frozen=True, kw_only=True)
class History:
    tip: str
    candidates: list[MergeCandidate]


def make_history(repository: Repository, chance: random.Random) -> History:
    """Made in one go: marks stand for commits until git has named them."""
    states: list[Files] = [_first(chance)]
    wanted: list[tuple[Files, list[str]]] = [(states[0], [])]

    def add(parent: int) -> int:
        state = states[parent]
        for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
            state = _edit(state, chance)
        states.append(state)
        wanted.append((state, [f":{parent + 1}"]))
        return len(states) - 1

    trunk = [0]
    for _ in range(chance.randrange(3)):
        trunk.append(add(trunk[-1]))
    made: list[tuple[int, int]] = []
    for _ in range(chance.randrange(1, 6)):
        siblings = [number for number, _ in made]
        base = chance.choice([*trunk, trunk[-1], *siblings[-1:]])
        made.append((add(base), base))
    names = repository.commits(wanted)
    return History(
        tip=names[chance.choice([trunk[-1], trunk[-1], trunk[0]])],
        candidates=[MergeCandidate(commit=names[own], base=names[base]) for own, base in made],
    )


def _first(chance: random.Random) -> Files:
    paths = {_path(chance) for _ in range(chance.randrange(4, 14))}
    return _without_clashes({path: File(_text(chance)) for path in sorted(paths)})


def _edit(files: Files, chance: random.Random) -> Files:
    act = chance.choice(
        [
            _change_line, _change_line, _change_line, _append, _add, _add, _delete, _rename,
            _rename, _rename_directory, _rename_directory, _chmod, _binary, _empty, _link,
            _crlf, _file_to_directory, _directory_to_file, _attributes, _submodule,
        ]
    )  # fmt: skip
    changed = dict(files)
    act(changed, chance)
    return _without_clashes(changed)


def _change_line(files: dict[bytes, File], chance: random.Random) -> None:
    if path := _some(files, chance):
        lines = files[path].content.split(b"\n")
        lines[chance.randrange(len(lines))] = b"changed %d" % chance.randrange(4)
        files[path] = files[path]._replace(content=b"\n".join(lines))


def _append(files: dict[bytes, File], chance: random.Random) -> None:
    if path := _some(files, chance):
        more = b"appended %d\n" % chance.randrange(3)
        files[path] = files[path]._replace(content=files[path].content + more)


def _add(files: dict[bytes, File], chance: random.Random) -> None:
    files[_path(chance)] = File(_text(chance))


def _delete(files: dict[bytes, File], chance: random.Random) -> None:
    if path := _some(files, chance):
        del files[path]


def _rename(files: dict[bytes, File], chance: random.Random) -> None:
    if path := _some(files, chance):
        file = files.pop(path)
        files[_path(chance)] = file


def _rename_directory(files: dict[bytes, File], chance: random.Random) -> None:
    old = chance.choice(_DIRECTORIES[1:])
    new = chance.choice([b"moved/", b"a/", b"lib/", b"b/inner/", b""])
    for path in [path for path in files if path.startswith(old)]:
        files[new + path.removeprefix(old)] = files.pop(path)


def _chmod(files: dict[bytes, File], chance: random.Random) -> None:
    if path := _some(files, chance):
        files[path] = files[path]._replace(mode=chance.choice(["100644", "100755"]))


def _binary(files: dict[bytes, File], chance: random.Random) -> None:
    files[_some(files, chance) or b"one"] = File(b"\0\1\2%d\n" % chance.randrange(3) * 4)


def _empty(files: dict[bytes, File], chance: random.Random) -> None:
    files[_some(files, chance) or b"one"] = File(b"")


def _link(files: dict[bytes, File], chance: random.Random) -> None:
    files[_some(files, chance) or b"one"] = File(chance.choice([b"one", b"a/A"]), "120000")


def _crlf(files: dict[bytes, File], chance: random.Random) -> None:
    if path := _some(files, chance):
        content = files[path].content.replace(b"\n", b"\r\n")
        files[path] = files[path]._replace(content=content)


def _file_to_directory(files: dict[bytes, File], chance: random.Random) -> None:
    if path := _some(files, chance):
        file = files.pop(path)
        files[path + b"/inside"] = chance.choice([file, File(_text(chance))])


def _directory_to_file(files: dict[bytes, File], chance: random.Random) -> None:
    directory = chance.choice(_DIRECTORIES[1:])
    for path in [path for path in files if path.startswith(directory)]:
        del files[path]
    files[directory.removesuffix(b"/")] = File(_text(chance))


def _attributes(files: dict[bytes, File], chance: random.Random) -> None:
    line = chance.choice([b"* merge=union\n", b"* -merge\n", b"*.py merge=union\n", b"* -text\n"])
    files[chance.choice([b"", b"a/"]) + b".gitattributes"] = File(line)


def _submodule(files: dict[bytes, File], chance: random.Random) -> None:
    files[chance.choice([b"module", b"a/A"])] = File(chance.choice([b"1", b"2"]) * 40, "160000")


def _some(files: dict[bytes, File], chance: random.Random) -> bytes | None:
    regular = sorted(path for path, file in files.items() if file.mode.startswith("100"))
    return chance.choice(regular) if regular else None


def _path(chance: random.Random) -> bytes:
    return chance.choice(_DIRECTORIES) + chance.choice(_NAMES)


def _text(chance: random.Random) -> bytes:
    """One of a few texts, so that files resemble each other, as renames need."""
    return b"".join(b"%d of text %d\n" % (line, chance.choice([1, 1, 1, 2])) for line in range(12))


def _without_clashes(files: Files) -> Files:
    """Without files where there is a directory; never nothing at all."""
    directories = {
        path[:at] for path in files for at in range(len(path)) if path[at : at + 1] == b"/"
    }
    return {p: file for p, file in files.items() if p not in directories} or {b"one": File(b"1\n")}
