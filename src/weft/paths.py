"""Paths and glob patterns: normal form, matching and conflicts.

A path is a list of non-empty segments joined by `/`, relative to the root of the repository. A
pattern is a path that may hold wildcards:

    *        any run of characters within a segment, the empty run included
    ?        a single character
    [a-z]    a character of a class; [!a-z] and [^a-z] are a character outside it
    **       as a whole segment: any number of segments, none included; as the last segment:
             all paths beneath, so `a/**` is `a/b` and `a/b/c` but not `a`

No wildcard stands for `/`. A `]` that comes first in a class belongs to it, a `[` without its `]`
is an ordinary character, and `[[]` is how to write a `[` that would otherwise open a class. A
segment of two or more `*` is `**`; next to other characters a run of `*` is a single `*`.

All functions except `normalise` expect normalised patterns. Every answer is exact and takes time
polynomial in the length of the patterns: no function backtracks or reads a file system. Claims
belong to the store, and the order of tasks to the graph.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Generic, TypeAlias, TypeVar

from weft.errors import InputError

# A character class as sorted, disjoint, inclusive ranges of code points.
_Ranges: TypeAlias = tuple[tuple[int, int], ...]
# A character of a segment: itself, or a class.
_Token: TypeAlias = str | _Ranges

_LAST = 0x10FFFF
_SLASH = ord("/")

# Possessive, so that the `!` of `[!]` is not taken back and read as the class of a `!`.
_CLASS = re.compile(r"\[[!^]?+[^/][^/\]]*+\]")
# If the first `[` of a segment opens no class, no later `[` does.
_HOLDS_CLASS = re.compile(rf"(?:\A|/)[^/\[]*+{_CLASS.pattern}")
_TOKEN = re.compile(rf"{_CLASS.pattern}|\*+|.", re.DOTALL)
_CLASS_OR_STARS = re.compile(rf"{_CLASS.pattern}|\*+")
_RANGE_OR_MEMBER = re.compile(r"(.)-(.)|(.)", re.DOTALL)
_ODD = r"\x00-\x1f\x7f-\x9f\\\ud800-\udfff"
_UNWRITABLE = re.compile(rf"[{_ODD}]")
# Plain names joined by single slashes, the usual path, are normal already.
_PLAIN = re.compile(rf"(?!/)(?:(?:\A|/)[^./*?\[{_ODD}][^/*?\[{_ODD}]*+)++")


class BadPath(InputError):
    """The path cannot be used; write it relative to the root of the repository."""


def normalise(text: str) -> str:
    """Return the normal form of a path or pattern, which the rest of weft compares.

    `.` and empty segments go; a trailing `/` (or `/.`) means all files in that directory, so `src/`
    is `src/**` and `.` is `**`; runs of `**` become a single `**`. Letter case and Unicode form
    stay, since git tells them apart.
    """
    if _PLAIN.fullmatch(text):
        return text
    _refuse_unusable_text(text)
    parts = text.split("/")
    segments = [_canonical_segment(part, text) for part in parts if part not in ("", ".")]
    if parts[-1] in ("", "."):
        segments.append("**")
    follows = pairwise(["", *segments])
    return "/".join(segment for before, segment in follows if segment != "**" or before != "**")


def _refuse_unusable_text(text: str) -> None:
    if not text:
        raise BadPath(
            "The path is empty; write a path such as src/app.py, or . for the whole repository."
        )
    if text.startswith("/"):
        raise BadPath(
            f"The path {text!r} is absolute; write it relative to the root of the repository, "
            "such as src/app.py."
        )
    if unwritable := _UNWRITABLE.search(text):
        if unwritable[0] == "\\":
            better = text.replace("\\", "/")
            raise BadPath(f"The path {text!r} holds a backslash; write {better!r} instead.")
        raise BadPath(
            f"The path {text!r} holds the unprintable character {unwritable[0]!r}; "
            "leave it out, or write ? in its place."
        )


def _canonical_segment(segment: str, text: str) -> str:
    """Refuse a segment no file can have, and shorten its runs of `*`; `text` is for messages."""
    if is_literal(segment):
        _refuse_reserved_names(tuple(segment), text)
        return segment
    _refuse_backward_ranges(segment, text)
    _refuse_reserved_names(_tokens(segment), text)
    if len(segment) > 1 and segment.strip("*") == "":
        return "**"
    return _CLASS_OR_STARS.sub(lambda match: "*" if match[0][0] == "*" else match[0], segment)


def _refuse_reserved_names(tokens: tuple[_Token | None, ...], text: str) -> None:
    if _only_spells(tokens, "..") or _only_spells(tokens, "."):
        raise BadPath(
            f"The path {text!r} has '.' or '..' for a name; "
            "write it relative to the root of the repository, without them."
        )
    if _only_spells(tokens, ".git"):
        raise BadPath(
            f"The path {text!r} leads into git's own directory; "
            "write a path among the files that git tracks."
        )


def _only_spells(tokens: tuple[_Token | None, ...], name: str) -> bool:
    """Return whether these tokens match only `name`, in any letter case.

    Any letter case, as there are file systems on which `.GIT` is git's directory too.
    """
    return len(tokens) == len(name) and all(
        token is not None
        and all(
            # Two neighbours at most, so that looking at both ends is looking at all of them.
            high - low < 2 and {chr(low), chr(high)} <= {letter, letter.upper()}
            for low, high in _ranges(token)
        )
        for token, letter in zip(tokens, name, strict=True)
    )


def _refuse_backward_ranges(segment: str, text: str) -> None:
    """Refuse a range like `[z-a]`, which is empty: its author meant some files, and would claim
    none.
    """
    for match in _CLASS.finditer(segment):
        for low, high in _members(match[0]):
            if low > high:
                raise BadPath(
                    f"The path {text!r} has the range {chr(low)}-{chr(high)}, which runs "
                    f"backwards and matches nothing; write {chr(high)}-{chr(low)} instead."
                )


def is_literal(pattern: str) -> bool:
    """Return whether the pattern has no wildcard, and so matches exactly the path it spells."""
    return (
        "*" not in pattern
        and "?" not in pattern
        and ("[" not in pattern or _HOLDS_CLASS.search(pattern) is None)
    )


def matches(pattern: str, path: str) -> bool:
    """Return whether the pattern matches the path; wildcards in the path are plain characters."""
    if is_literal(pattern):
        return pattern == path
    glob = _compile(pattern)
    if not path.startswith(glob.lead):
        return False
    names = path.split("/")
    return "" not in names and _advance(names, glob) >> glob.end == 1


def intersects(a: str, b: str) -> bool:
    """Return whether some path is matched by both patterns."""
    if is_literal(a):
        return matches(b, a)
    if is_literal(b):
        return matches(a, b)
    glob = _compile(b)
    return _advance(_compile(a).steps, glob) >> glob.end == 1


def conflicts(a: str, b: str) -> bool:
    """Return whether work on the two patterns can collide.

    Patterns conflict if they share a path. A tree also holds either a file `a` or a directory `a`,
    never both: a task that writes the file `a` replaces all files beneath `a/`, and the other way
    round. So a literal path conflicts with all paths beneath it; this also saves an author who
    wrote `src/auth` for the directory and forgot the slash. (A file that matches `*.py` is assumed
    not to become a directory, or no task could run beside it.)
    """
    if is_literal(a) and is_literal(b):
        return a == b or a.startswith(b + "/") or b.startswith(a + "/")
    return intersects(a, b) or _is_above(a, b) or _is_above(b, a)


def _is_above(a: str, b: str) -> bool:
    """Return whether `a` is a literal directory above all paths of `b`."""
    return is_literal(a) and _compile(b).lead.startswith(a + "/")


def subtree(pattern: str) -> str | None:
    """Return the common start of all paths of a pattern like `src/**`; None for other patterns."""
    if pattern == "**":
        return ""
    directory = pattern.removesuffix("**")
    return directory if directory != pattern and is_literal(directory) else None


def lead(pattern: str) -> str:
    """Return the common start of all matching paths; for a literal, all of it."""
    return pattern if is_literal(pattern) else _compile(pattern).lead


def home(pattern: str) -> str:
    """Return a literal itself, or the directory that contains all paths of a glob.

    If two patterns conflict, their homes are equal or nested.
    """
    return pattern if is_literal(pattern) else _compile(pattern).home


def quote(path: str) -> str:
    """Return the pattern that matches this path alone, for any characters in it."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in path)


def _tokens(segment: str) -> tuple[_Token | None, ...]:
    return tuple(_token(match[0]) for match in _TOKEN.finditer(segment))


def _token(text: str) -> _Token | None:
    if text[0] == "*":
        return None
    if text == "?":
        return _without([(_SLASH, _SLASH)])
    if len(text) == 1:
        return text
    members = _members(text)
    if text[1] in "!^":
        return _without([*members, (_SLASH, _SLASH)])
    # The complement of the complement, which sorts and merges the ranges on the way.
    return _without([*_without(members), (_SLASH, _SLASH)])


def _members(text: str) -> list[tuple[int, int]]:
    """Return the ranges written in a class, as they are written."""
    body = text[2:-1] if text[1] in "!^" else text[1:-1]
    return [
        (ord(low or single), ord(high or single))
        for low, high, single in _RANGE_OR_MEMBER.findall(body)
    ]


def _without(ranges: Iterable[tuple[int, int]]) -> _Ranges:
    """Return every character outside the ranges."""
    outside = []
    start = 0
    for low, high in sorted(ranges):
        if low > high:
            continue
        if start < low:
            outside.append((start, low - 1))
        start = max(start, high + 1)
    if start <= _LAST:
        outside.append((start, _LAST))
    return tuple(outside)


def _ranges(token: _Token) -> _Ranges:
    return ((ord(token), ord(token)),) if isinstance(token, str) else token


def _share_a_character(a: _Token, b: _Token) -> bool:
    if isinstance(a, str) and isinstance(b, str):
        return a == b
    return any(
        low <= other_high and other_low <= high
        for low, high in _ranges(a)
        for other_low, other_high in _ranges(b)
    )


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << place for place, flag in enumerate(flags) if flag)


_Step = TypeVar("_Step")


class _Sequence(Generic[_Step]):
    """Steps to match in order; `None` is a star, which stands for any number of any steps.

    Characters make up a segment as segments make up a pattern, so the same walk serves both. Sets
    of positions are the bits of an integer: bit j is "before step j", bit `end` is "at the end".
    """

    __slots__ = ("end", "stars", "steps")

    def __init__(self, steps: Iterable[_Step | None]) -> None:
        self.steps = tuple(steps)
        self.end = len(self.steps)
        self.stars = _bits(step is None for step in self.steps)

    def places(self, step: _Step, row: int) -> int:
        """Return those positions in `row` whose step is no star and has a value in common."""
        raise NotImplementedError


def _advance(steps: Iterable[_Step | None], target: _Sequence[_Step]) -> int:
    """Walk two sequences abreast; in neither are two stars neighbours.

    Return the positions that `target` can be at after all `steps`. This is the product of two
    automata, a row at a time.
    """
    stars = target.stars
    row = 1 | (stars & 1) << 1
    for step in steps:
        if step is None:
            # This star takes any number of the target's steps: all from the first on.
            row = (2 << target.end) - (row & -row)
        else:
            # The target takes the step with its own next step, or a star there takes it.
            row = target.places(step, row) << 1 | row & stars
            row |= (row & stars) << 1
            if not row:
                break
    return row


class _Segment(_Sequence[_Token]):
    """A segment with wildcards, as a sequence of characters and classes; the star is `*`."""

    __slots__ = ("_masks",)

    def __init__(self, text: str) -> None:
        super().__init__(_tokens(text))
        # Grows with the alphabet that file names use, which is small.
        self._masks: dict[_Token, int] = {}

    def places(self, step: _Token, row: int) -> int:
        mask = self._masks.get(step)
        if mask is None:
            mask = self._masks[step] = _bits(
                token is not None and _share_a_character(token, step) for token in self.steps
            )
        return row & mask


_ANYTHING = _Segment("*")


class _Pattern(_Sequence[str | _Segment]):
    """A pattern with wildcards, as a sequence of names and segments; the star is `**`."""

    __slots__ = ("home", "is_subtree", "lead")

    def __init__(self, pattern: str) -> None:
        segments = pattern.split("/")
        steps = [_step(segment) for segment in segments]
        # A last `**` stands for a segment or more.
        super().__init__(steps if steps[-1] is not None else [*steps, _ANYTHING])
        depth = next(i for i, step in enumerate(steps) if not isinstance(step, str))
        # The directory that all matching paths lie beneath: "" is the root.
        self.home = "/".join(segments[:depth])
        # The common start of all matching paths.
        self.lead = self.home and self.home + "/"
        self.is_subtree = segments[depth:] == ["**"]

    def places(self, step: str | _Segment, row: int) -> int:
        places = 0
        for place, own in enumerate(self.steps):
            if row >> place & 1 and own is not None and _share_a_name(own, step):
                places |= 1 << place
        return places


def _step(segment: str) -> str | _Segment | None:
    if segment == "**":
        return None
    if segment == "*":
        return _ANYTHING
    return segment if is_literal(segment) else _segment(segment)


_segment = lru_cache(maxsize=4096)(_Segment)
_compile = lru_cache(maxsize=8192)(_Pattern)


def _share_a_name(a: str | _Segment, b: str | _Segment) -> bool:
    if isinstance(b, str):
        a, b = b, a
    if isinstance(b, str):
        return a == b
    if a is _ANYTHING or b is _ANYTHING:
        return True
    tokens: Iterable[_Token | None] = a if isinstance(a, str) else a.steps
    return _advance(tokens, b) >> b.end == 1


T = TypeVar("T", bound=Hashable)


class Index(Generic[T]):
    """Patterns and their owners, arranged so that a search meets only nearby patterns.

    A literal lives at its path, a glob at its home: the directory that all of its paths lie
    beneath. The conflicts of a pattern live above, at or beneath its own place.
    """

    def __init__(self) -> None:
        self._literals: dict[str, dict[T, None]] = {}
        self._globs: dict[str, dict[str, dict[T, None]]] = {}
        # From a directory to its entries at or beneath which a pattern lives.
        self._entries: dict[str, dict[str, None]] = {}
        self._held: dict[T, list[str]] = {}

    def add(self, pattern: str, owner: T) -> None:
        """Hold the pattern for the owner; a second hold changes no claim."""
        if is_literal(pattern):
            holders = self._literals.get(pattern)
            if holders is None:
                holders = self._literals[pattern] = {}
                self._link(pattern)
        else:
            home = _compile(pattern).home
            globs = self._globs.get(home)
            if globs is None:
                globs = self._globs[home] = {}
                self._link(home)
            holders = globs.setdefault(pattern, {})
        if owner not in holders:
            holders[owner] = None
            self._held.setdefault(owner, []).append(pattern)

    def remove(self, owner: T) -> None:
        """Forget all patterns of the owner, if there are any."""
        for pattern in self._held.pop(owner, ()):
            if is_literal(pattern):
                place = pattern
                _discard(self._literals, pattern, owner)
            else:
                place = _compile(pattern).home
                globs = self._globs[place]
                _discard(globs, pattern, owner)
                if not globs:
                    del self._globs[place]
            self._unlink(place)

    def holds(self, owner: T) -> bool:
        return owner in self._held

    def find(self, pattern: str) -> Iterator[tuple[str, T]]:
        """Yield every held pair whose pattern conflicts with this pattern, the asker's own
        included.

        The index must not change while the answer is being read.
        """
        if is_literal(pattern):
            home, takes_all = pattern, True
        else:
            glob = _compile(pattern)
            home, takes_all = glob.home, glob.is_subtree
        literals, globs = self._literals, self._globs
        # A literal above or at home is an ancestor of all that the pattern matches, or its equal.
        for place in _ancestors(home):
            if place in literals:
                yield from self._literals_at(place)
            if place in globs:
                yield from self._globs_at(place, pattern)
        if home in literals:
            yield from self._literals_at(home)
        # The file replaces, or the subtree holds, all paths beneath.
        asked = None if takes_all else pattern
        if home in globs:
            yield from self._globs_at(home, asked)
        for place in self._beneath(home) if home in self._entries else ():
            if place in literals and (asked is None or conflicts(asked, place)):
                yield from self._literals_at(place)
            if place in globs:
                yield from self._globs_at(place, asked)

    def _literals_at(self, place: str) -> list[tuple[str, T]]:
        return [(place, owner) for owner in self._literals[place]]

    def _globs_at(self, place: str, asked: str | None) -> list[tuple[str, T]]:
        """Return the globs that live here, all of them or those that conflict with `asked`."""
        return [
            (glob, owner)
            for glob, holders in self._globs[place].items()
            if asked is None or conflicts(asked, glob)
            for owner in holders
        ]

    def _beneath(self, directory: str) -> Iterator[str]:
        entries = self._entries
        waiting = [directory]
        while waiting:
            for place in entries[waiting.pop()]:
                yield place
                if place in entries:
                    waiting.append(place)

    def _link(self, place: str) -> None:
        """Make the place known to its directories, up to a known directory."""
        entries = self._entries
        while place:
            directory = place.rpartition("/")[0]
            if directory in entries:
                entries[directory][place] = None
                return
            entries[directory] = {place: None}
            place = directory

    def _unlink(self, place: str) -> None:
        """Drop the place from its directories if no pattern lives there or beneath any more."""
        while place and not (
            place in self._literals or place in self._globs or place in self._entries
        ):
            directory = place.rpartition("/")[0]
            entries = self._entries[directory]
            del entries[place]
            if entries:
                return
            del self._entries[directory]
            place = directory


def _discard(holders_of: dict[str, dict[T, None]], pattern: str, owner: T) -> None:
    holders = holders_of[pattern]
    del holders[owner]
    if not holders:
        del holders_of[pattern]


def _ancestors(path: str) -> Iterator[str]:
    """Yield the proper ancestors of a path, from the root on; the root has none."""
    if path:
        yield ""
    cut = path.find("/")
    while cut >= 0:
        yield path[:cut]
        cut = path.find("/", cut + 1)
