"""Patterns are judged against a naive matcher, and collisions against listing all short paths."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import each_case
from weft.errors import InputError
from weft.paths import (
    BadPath,
    Index,
    conflicts,
    intersects,
    is_literal,
    lead,
    matches,
    normalise,
    quote,
    subtree,
)


def naive_match(pattern: str, path: str) -> bool:
    """Match by brute force, straight from the text, normalised or not."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if pattern.split("/")[-1] in ("", "."):
        parts.append("**")
    return naive_segments(parts, path.split("/"))


def naive_segments(parts: list[str], names: list[str]) -> bool:
    if not parts:
        return not names
    if len(parts[0]) > 1 and set(parts[0]) == {"*"}:
        if len(parts) == 1:
            return bool(names)
        return any(naive_segments(parts[1:], names[skip:]) for skip in range(len(names) + 1))
    return bool(names) and naive_name(parts[0], names[0]) and naive_segments(parts[1:], names[1:])


def naive_name(part: str, name: str) -> bool:
    if not part:
        return not name
    if part[0] == "*":
        return any(naive_name(part[1:], name[skip:]) for skip in range(len(name) + 1))
    if not name:
        return False
    close = part.find("]", 3 if part[1:2] in ("!", "^") else 2) if part[0] == "[" else -1
    if close > 0:
        return naive_class(part[1:close], name[0]) and naive_name(part[close + 1 :], name[1:])
    return part[0] in ("?", name[0]) and naive_name(part[1:], name[1:])


def naive_class(body: str, character: str) -> bool:
    if body[0] in "!^":
        return not naive_members(body[1:], character)
    return naive_members(body, character)


def naive_members(body: str, character: str) -> bool:
    if len(body) >= 3 and body[1] == "-":
        return body[0] <= character <= body[2] or naive_members(body[3:], character)
    return bool(body) and (body[0] == character or naive_members(body[1:], character))


def every_path(letters: int) -> list[str]:
    """List all paths of up to so many letters; `c` stands for all but `a` and `b`."""
    return [
        "".join(letter + cut for letter, cut in zip(word, (*cuts, ""), strict=True))
        for length in range(1, letters + 1)
        for word in product("abc", repeat=length)
        for cuts in product(("", "/"), repeat=length - 1)
    ]


PATHS = every_path(4)


@cache
def language(pattern: str) -> frozenset[str]:
    return frozenset(path for path in PATHS if matches(pattern, path))


PIECES = ["a", "b", "*", "?", "**", "[ab]", "[!a]"]


def patterns(pieces: int) -> st.SearchStrategy[str]:
    """Normalised patterns of few enough pieces for `PATHS` to hold all that matters."""
    glued = st.tuples(st.sampled_from(PIECES), st.sampled_from(["", "/"])).map("".join)
    return (
        st.lists(glued, min_size=1, max_size=pieces).map(lambda parts: "".join(parts).rstrip("/"))
    ).map(normalise)


RAW_PATTERNS = st.lists(
    st.sampled_from([*PIECES, "/", "/", ".", "[", "]", "!", "-", "***", "[a-b]", "[^a]"]),
    min_size=1,
    max_size=8,
).map("".join)
ANY_PATHS = st.lists(
    st.text(st.sampled_from("abc[]!-.*"), min_size=1, max_size=4), min_size=1, max_size=4
).map("/".join)


@each_case(
    ("text", "normal"),
    [
        ("src/app.py", "src/app.py"),
        ("./src/app.py", "src/app.py"),
        ("././a", "a"),
        (".//a", "a"),
        ("a/./b//c", "a/b/c"),
        ("src/", "src/**"),
        ("src//", "src/**"),
        ("src/.", "src/**"),
        ("src/*/", "src/*/**"),
        (".", "**"),
        ("./", "**"),
        ("./.", "**"),
        ("**", "**"),
        ("**/", "**"),
        ("***", "**"),
        ("a/***/b", "a/**/b"),
        ("**/**", "**"),
        ("a/**/**", "a/**"),
        ("a/**/./**/b", "a/**/b"),
        ("a/**/", "a/**"),
        ("a**b", "a*b"),
        ("a***", "a*"),
        ("**.py", "*.py"),
        ("[**]**", "[**]*"),
        ("a[b", "a[b"),
        ("a[/b]", "a[/b]"),
        ("[!]", "[!]"),
        ("[]", "[]"),
        ("[a-", "[a-"),
        ("[-a]", "[-a]"),
        (" a b ", " a b "),
        ("...", "..."),
        ("a..b/.c", "a..b/.c"),
        (".gitignore", ".gitignore"),
        (".github/", ".github/**"),
        (".git*", ".git*"),
        ("?git", "?git"),
        (".[G-g]it", ".[G-g]it"),
        ("x.git/a", "x.git/a"),
        ("Straße/É", "Straße/É"),
    ],
)
def test_normalising_gives_the_one_spelling(text: str, normal: str) -> None:
    assert normalise(text) == normal


@each_case(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("/", "absolute"),
        ("//", "absolute"),
        ("//a", "absolute"),
        ("/etc/passwd", "absolute"),
        ("/**", "absolute"),
        ("..", "'..'"),
        ("../a", "'..'"),
        ("a/../b", "'..'"),
        ("a/..", "'..'"),
        ("a/[.][.]", "'..'"),
        ("[.]/a", "'.'"),
        (".git", "git's own"),
        (".git/config", "git's own"),
        ("./.git/", "git's own"),
        (".GIT/config", "git's own"),
        (".Git/**", "git's own"),
        ("sub/.git/config", "git's own"),
        ("**/.git", "git's own"),
        ("[.]git/config", "git's own"),
        (".[gG]i[t]", "git's own"),
        (".[G-G]it/x", "git's own"),
        ("a\\b", "write 'a/b'"),
        ("a\0b", "unprintable"),
        ("a\nb", "unprintable"),
        ("a\x7f", "unprintable"),
        ("a\x85", "unprintable"),
        ("a\ud800", "unprintable"),
        ("a[z-a]", "write a-z"),
        ("[!ab-a]", "write a-b"),
        ("[z-a].", "write a-z"),
    ],
)
def test_a_path_that_cannot_be_used_is_refused_with_a_sentence(text: str, complaint: str) -> None:
    with pytest.raises(BadPath, match=r"^The path .*; .*[.]$") as refusal:
        normalise(text)
    message = str(refusal.value)
    assert complaint in message
    assert message.isprintable()
    assert isinstance(refusal.value, InputError)


@given(st.text(st.characters(codec=None)))
@example("\ud800[")
@example("[" * 50)
def test_arbitrary_text_is_normalised_or_refused(text: str) -> None:
    try:
        normal = normalise(text)
    except BadPath:
        return
    assert normalise(normal) == normal


@given(RAW_PATTERNS, ANY_PATHS)
def test_normalising_is_idempotent_and_keeps_what_matches(text: str, path: str) -> None:
    try:
        normal = normalise(text)
    except BadPath:
        return
    assert normalise(normal) == normal
    assert naive_match(normal, path) == naive_match(text, path) == matches(normal, path)


@each_case(
    ("pattern", "literal"),
    [
        ("src/app.py", True),
        ("a[b", True),
        ("a]b", True),
        ("a[/b]", True),
        ("[]", True),
        ("[!]", True),
        ("[^]", True),
        ("*", False),
        ("a?", False),
        ("[a]", False),
        ("[]]", False),
        ("[!]]", False),
        ("[[]", False),
        ("a[/b[c]", False),
        ("src/**", False),
    ],
)
def test_a_pattern_is_literal_when_it_has_no_wildcard(pattern: str, literal: bool) -> None:
    assert normalise(pattern) == pattern
    assert is_literal(pattern) is literal
    assert not literal or matches(pattern, pattern)


@each_case(
    ("pattern", "hits", "misses"),
    [
        ("a/b", ["a/b"], ["a", "a/b/c", "A/b", "a/B"]),
        ("*", ["a", ".a", "*", "\n"], ["a/b", "", "a/"]),
        ("*.py", ["a.py", ".py"], ["a.pyc", "a/b.py", "py"]),
        ("a*b*c", ["abc", "axxbyyc", "abbcc"], ["ab", "acb", "ab/c"]),
        ("a?c", ["abc", "a\U0001f600c", "a\udc80c"], ["ac", "abbc", "a/c"]),
        ("**", ["a", "a/b/c"], ["", "a//b", "/a"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b", "ab/c", "a/", "a//b"]),
        ("**/a", ["a", "b/a", "b/c/a"], ["a/b", "ba"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b", "a/b/b"], ["a", "b", "a/bb", "ab"]),
        ("**/a/**", ["a/b", "x/a/b/c"], ["a", "x/a"]),
        ("**/a/**/a", ["a/a", "a/b/a", "b/a/a"], ["a", "a/b"]),
        ("[ab]", ["a", "b"], ["c", "ab", "[ab]"]),
        ("[a-c]x", ["ax", "bx", "cx"], ["dx", "-x"]),
        ("[a-ce-g]", ["b", "f"], ["d", "-"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[-a]", ["a", "-"], ["b"]),
        ("[a-c-e]", ["b", "-", "e"], ["d"]),
        ("[!ab]", ["c", "!", "\U0010ffff"], ["a", "b", "cc"]),
        ("[^ab]", ["c", "^"], ["a", "b"]),
        ("[a!^]", ["a", "!", "^"], ["b"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[!]a]", ["b"], ["]", "a"]),
        ("[.-0]", [".", "0"], ["1"]),
        ("a[.-0]b", ["a.b"], ["a/b"]),
        ("a[!x]b", ["a.b"], ["a/b", "axb"]),
        ("[[]id].tsx", ["[id].tsx"], ["i.tsx"]),
        ("[*?]", ["*", "?"], ["a"]),
        ("[a*", ["[a", "[abc"], ["a"]),
    ],
)
def test_a_pattern_matches_these_and_not_those(
    pattern: str, hits: list[str], misses: list[str]
) -> None:
    assert normalise(pattern) == pattern
    assert [path for path in hits if not matches(pattern, path)] == []
    assert [path for path in misses if matches(pattern, path)] == []


@each_case(
    ("a", "b", "common"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", "A", False),
        ("a", "a/b", False),
        ("a", "a/**", False),
        ("a/**", "a/*", True),
        ("a/**", "**/b", True),
        ("a/**", "b/**", False),
        ("a/**", "ab/**", False),
        ("*.py", "test_*", True),
        ("*.py", "*.js", False),
        ("a*", "*b", True),
        ("ab*", "a?", True),
        ("ab*", "?", False),
        ("*a*b*", "*b*a*", True),
        ("**/*.py", "src/*", True),
        ("**/x/*.py", "src/**/y/*", False),
        ("a/b/**", "**/a/b", True),
        ("a/*/c", "a/**/b/c", True),
        ("a/*", "a/*/**", False),
        ("[a-m]", "[m-z]", True),
        ("[a-m]", "[n-z]", False),
        ("[!a]", "[!b]", True),
        ("[!a]", "a", False),
        ("[!a]", "[a]", False),
        ("[!a-y]", "[a-z]", True),
        ("[!a-z]", "[a-z]", False),
        ("[! -~]", "?", True),
        ("[! -~]", "[a-z]", False),
        ("[ -~]", "[\u00a0-\U0010ffff]", False),
        ("[.-0]", "[!.0]", False),
        ("?", "??", False),
        ("[!a][!b]", "[!b][!a]", True),
    ],
)
def test_two_patterns_intersect_when_a_path_is_in_both(a: str, b: str, common: bool) -> None:
    assert intersects(a, b) is common
    assert intersects(b, a) is common


@each_case(
    ("a", "b", "collide"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", "a/b", True),
        ("a", "a/b/c", True),
        ("a", "ab/c", False),
        ("a/b", "a/c", False),
        ("a", "a/**", True),
        ("a", "a/b/*.py", True),
        ("a/b", "a/*.py", False),
        ("a/b.py", "a/*.py", True),
        ("a/b.py/c", "a/*.py", False),
        ("a/*", "a/b/*.py", False),
        ("a/*.d", "a/b/*", False),
        ("a/**", "ab", False),
        ("a/**", "b/**", False),
        ("**", "a", True),
        ("**/*.py", "docs/a.md", False),
        ("src/*.py", "src/*.js", False),
        ("src/*/x", "src/*", False),
    ],
)
def test_patterns_also_conflict_when_a_file_may_replace_a_directory(
    a: str, b: str, collide: bool
) -> None:
    assert conflicts(a, b) is collide
    assert conflicts(b, a) is collide


@given(
    st.text(alphabet="ab*?[]!-/", min_size=1, max_size=6).filter(lambda p: "" not in p.split("/"))
)
def test_a_quoted_path_matches_itself_and_nothing_else(path: str) -> None:
    pattern = quote(path)
    assert matches(pattern, path)
    assert not matches(pattern, path + "a")
    assert not intersects(pattern, quote(path + "b"))


@each_case(
    ("pattern", "start"),
    [
        ("**", ""),
        ("src/**", "src/"),
        ("a/b/**", "a/b/"),
        ("src/*", None),
        ("a*/**", None),
        ("a", None),
    ],
)
def test_a_subtree_holds_everything_that_starts_alike(pattern: str, start: str | None) -> None:
    assert subtree(pattern) == start


@each_case(
    ("pattern", "start"),
    [
        ("**", ""),
        ("*.py", ""),
        ("src/**", "src/"),
        ("a/b*/c", "a/"),
        ("a/b/[c]", "a/b/"),
        ("a/b", "a/b"),
        ("a[b", "a[b"),
    ],
)
def test_what_a_pattern_matches_starts_with_its_lead(pattern: str, start: str) -> None:
    assert lead(pattern) == start


def test_glob_versus_literal_path_missed() -> None:
    """A weakened build that compares strings, or matches either way round, finds none."""
    globs_and_what_they_hold = [
        ("src/auth/**", "src/auth/login.py"),
        ("src/*.py", "src/login.py"),
        ("src/", "./src//login.py"),
        ("**", "src/login.py"),
    ]
    for given_glob, given_path in globs_and_what_they_hold:
        glob, path = normalise(given_glob), normalise(given_path)
        weakened = glob == path
        assert not weakened
        assert intersects(glob, path)
        index: Index[str] = Index()
        index.add(glob, "holder")
        assert list(index.find(path)) == [(glob, "holder")]

    weakened = naive_match("src/*.py", "src/test_*") or naive_match("src/test_*", "src/*.py")
    assert not weakened
    assert intersects("src/*.py", "src/test_*")


@given(RAW_PATTERNS, ANY_PATHS)
def test_matching_agrees_with_trying_everything(text: str, path: str) -> None:
    try:
        pattern = normalise(text)
    except BadPath:
        return
    assert matches(pattern, path) == naive_match(pattern, path)
    assert not is_literal(pattern) or matches(pattern, pattern)


@given(patterns(pieces=3), patterns(pieces=3))
@example("a/b/**", "**/a/b")
@example("[!a]", "[ab]")
def test_intersection_agrees_with_listing_all_paths(a: str, b: str) -> None:
    assert intersects(a, b) == (not language(a).isdisjoint(language(b)))
    assert intersects(a, b) == intersects(b, a)


@given(patterns(pieces=2), patterns(pieces=2))
def test_conflicts_agree_with_listing_all_paths_and_what_lies_beneath(a: str, b: str) -> None:
    replaces = any(
        is_literal(file) and all(path.startswith(file + "/") for path in language(pattern))
        for file, pattern in ((a, b), (b, a))
    )
    assert conflicts(a, b) == (intersects(a, b) or replaces)
    assert conflicts(a, b) == conflicts(b, a)


@given(patterns(pieces=7), patterns(pieces=7), ANY_PATHS)
def test_long_patterns_that_share_a_path_intersect(a: str, b: str, path: str) -> None:
    shared = language(a) & language(b)
    assert intersects(a, b) or not shared
    assert intersects(a, b) == intersects(b, a)
    assert conflicts(a, b) == conflicts(b, a)
    assert conflicts(a, b) or not intersects(a, b)
    assert intersects(a, a)
    assert conflicts(a, path) if matches(a, path) and is_literal(path) else True


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        ("*a" * 1000 + "*", "*b" * 1000 + "*", True),
        ("*a" * 1000 + "c", "*b" * 1000 + "d", False),
        ("*[!a]" * 500 + "*c", "*?b" * 500, False),
        ("/".join(["**/a*"] * 100), "/".join(["**/*b"] * 100), True),
        ("/".join(["**/a*"] * 100), "/".join(["**/*b"] * 100) + "/c", False),
        ("/".join(["**", "*a" * 20] * 20) + "/c", "/".join(["**", "*b" * 20] * 20), False),
        ("**/a" + "/*/**/a" * 100, "a/" * 199 + "b", False),
    ],
)
def test_patterns_made_to_be_slow_are_not(a: str, b: str, common: bool) -> None:
    """Backtracking would take longer than the sun has left, not just longer than the timeout."""
    assert intersects(normalise(a), normalise(b)) is common
    assert conflicts(normalise(a), normalise(b)) or not common


@pytest.mark.timeout(120)
def test_matching_and_reading_made_to_be_slow_are_not() -> None:
    assert not matches("*a" * 1000 + "*b", "a" * 4000)
    assert not matches("/".join(["**/a"] * 100) + "/b", "a/" * 300 + "a")
    assert normalise("[" * 100_000) == "[" * 100_000
    assert normalise("a/./" * 50_000 + "b") == "a/" * 50_000 + "b"


OWNERS = st.integers(0, 4)
HELD = st.lists(st.tuples(patterns(pieces=4) | st.sampled_from(PATHS), OWNERS), max_size=8)


@given(HELD, st.sets(OWNERS), HELD, st.lists(patterns(pieces=4), max_size=5))
def test_the_index_finds_what_comparing_every_pair_finds(
    first: list[tuple[str, int]],
    removed: set[int],
    second: list[tuple[str, int]],
    asked: list[str],
) -> None:
    index: Index[int] = Index()
    for pattern, owner in first:
        index.add(pattern, owner)
    for owner in removed:
        index.remove(owner)
    for pattern, owner in second:
        index.add(pattern, owner)
    held = {pair for pair in first if pair[1] not in removed} | set(second)
    for question in [*asked, "**", *(pattern for pattern, _ in held)]:
        expected = sorted(pair for pair in held if conflicts(pair[0], question))
        assert sorted(index.find(question)) == expected


@given(HELD)
def test_an_index_whose_owners_are_all_removed_is_as_new(held: list[tuple[str, int]]) -> None:
    index: Index[int] = Index()
    for pattern, owner in held:
        index.add(pattern, owner)
    for owner in range(5):
        index.remove(owner)
    assert list(index.find("**")) == []
    assert vars(index) == vars(Index())


def test_removing_a_stranger_changes_nothing() -> None:
    index: Index[str] = Index()
    index.add("a/b", "holder")
    index.remove("stranger")
    assert list(index.find("a")) == [("a/b", "holder")]


def test_one_path_may_have_many_holders_and_each_holds_it_once() -> None:
    index: Index[str] = Index()
    for owner in ["first", "second", "first"]:
        index.add("package.json", owner)
        index.add("src/**", owner)
    index.remove("first")
    assert list(index.find("package.json")) == [("package.json", "second")]
    assert list(index.find("src/a")) == [("src/**", "second")]


@pytest.mark.timeout(120)
def test_a_plan_of_fifty_thousand_paths_is_not_compared_pairwise() -> None:
    """Pairwise this would be more than two thousand million comparisons."""
    index: Index[int] = Index()
    plan = [
        (f"src/m{task}/**" if task % 20 == n == 0 else f"src/m{task}/f{n}.py", task)
        for task in range(10_000)
        for n in range(5)
    ]
    for pattern, task in plan:
        index.add(normalise(pattern), task)
    hits = sum(1 for pattern, _ in plan for _ in index.find(pattern))
    # A glob and its four siblings see each other and the glob sees itself; other paths themselves.
    assert hits == 500 * (1 + 4 + 4 + 4) + 9_500 * 5
    for task in range(10_000):
        index.remove(task)
    assert list(index.find("**")) == []
