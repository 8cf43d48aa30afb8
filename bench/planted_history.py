"""A history with planted structure: topics with words and files of their own that change together.

The same seed gives the same history. Messages speak of a topic in its own words and seldom name a
path; files of a topic change together, with their tests and, at times, with a changelog.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_SYLLABLES = ("ba", "co", "du", "fe", "gi", "ka", "lo", "mu", "ne", "pi", "ra", "so", "tu", "ve")
_VERBS = ("fix", "add", "improve", "speed up", "rework", "test", "document", "simplify")
_NOISE = ("edge", "case", "warning", "error", "option", "default", "message", "timeout", "name")
CHANGELOG = "CHANGELOG.md"


@dataclass(frozen=True)
class Topic:
    words: tuple[str, ...]
    files: tuple[str, ...]  # sources, then the tests that mirror them


@dataclass(frozen=True)
class PlantedCommit:
    message: str
    files: tuple[str, ...]


def plant_topics(count: int, seed: int = 15) -> list[Topic]:
    chance = random.Random(seed)
    words = _invent_words(count * 4, chance)
    topics = []
    for number in range(count):
        own = tuple(words[number * 4 : number * 4 + 4])
        names = [f"{own[0]}_{part}" for part in ("parser", "store", "view")[: chance.randint(1, 3)]]
        sources = [f"src/area{number % 7}/{name}.py" for name in names]
        tests = [f"tests/area{number % 7}/test_{name}.py" for name in names]
        topics.append(Topic(words=own, files=(*sources, *tests)))
    return topics


def plant_commits(count: int, topics: Sequence[Topic], seed: int = 15) -> Iterator[PlantedCommit]:
    chance = random.Random(seed)
    for number in range(count):
        if chance.random() < 0.02:  # a sweep over the tree, which says nothing about files
            files = [file for topic in topics for file in topic.files]
            yield PlantedCommit(
                "format everything", tuple(chance.sample(files, min(40, len(files))))
            )
            continue
        topic = topics[min(int(chance.expovariate(4 / len(topics))), len(topics) - 1)]
        yield PlantedCommit(_message(topic, number, chance), _files(topic, topics, chance))


def _message(topic: Topic, number: int, chance: random.Random) -> str:
    words = [*chance.sample(topic.words[1:], 2), *chance.sample(_NOISE, 2)]
    chance.shuffle(words)
    named = f" in {chance.choice(topic.files)}" if chance.random() < 0.1 else ""
    return f"{chance.choice(_VERBS)} {' '.join(words)}{named} (#{number})"


def _files(topic: Topic, topics: Sequence[Topic], chance: random.Random) -> tuple[str, ...]:
    files = [file for file in topic.files if chance.random() < 0.75] or [topic.files[0]]
    if chance.random() < 0.3:
        files.append(CHANGELOG)
    if chance.random() < 0.15:
        files.append(chance.choice(chance.choice(topics).files))
    return tuple(dict.fromkeys(files))


def _invent_words(count: int, chance: random.Random) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(chance.choices(_SYLLABLES, k=3))] = None
    return list(words)


def write_repository(root: Path, commits: Sequence[PlantedCommit], first: int = 0) -> None:
    """Write commits to the branch main of a new repository, or behind those that are there."""
    if first == 0:
        root.mkdir(parents=True)
        _git(root, "init", "-q", "-b", "main")
    stream = b"".join(_stream(commits, first))
    _git(root, "fast-import", "--quiet", "--force", input=stream)
    _git(root, "reset", "-q", "--hard", "main")


def _stream(commits: Sequence[PlantedCommit], first: int) -> Iterator[bytes]:
    for number, commit in enumerate(commits, first):
        message = commit.message.encode()
        yield b"commit refs/heads/main\n"
        yield b"committer p <p@example.org> %d +0000\n" % (1_700_000_000 + number * 60)
        yield b"data %d\n%s\n" % (len(message), message)
        if number == first and first:
            yield b"from refs/heads/main^0\n"
        for file in commit.files:
            text = b"%s %d\n" % (file.encode(), number)
            yield b"M 100644 inline %s\ndata %d\n%s\n" % (file.encode(), len(text), text)
    yield b"done\n"


def _git(root: Path, *arguments: str, input: bytes = b"") -> None:
    subprocess.run(["git", *arguments], cwd=root, input=input, check=True, capture_output=True)
