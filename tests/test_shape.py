"""The rules of CONTRIBUTING.md and ARCHITECTURE.md that a program can check."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import shape
from cases import each_case

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]

REPEATED: dict[str, str] = {}
"""Class names that may be defined more than once, each with its reason."""

REPEATED_MODULES: dict[str, str] = {}
"""Module names that may be used more than once, each with its reason."""

PRIVATE = {
    "engine_program.py": "weakened builds: tests show that they notice a safeguard taken out",
    "forked_python.py": "a method of Python's subprocess.Popen",
    "store_helpers.py": "stores with other words in a query: tests show that they notice",
    "test_engine.py": "an attempt that is settled late: weft offers no such delay",
    "test_event_stream.py": "the moment at which the reader waits has no other trace",
    "test_long_poll.py": "the moment at which a sender waits in line has no other trace",
    "test_pool.py": "weakened pools: tests show that they notice",
    "upgrade_program.py": "statements are counted from the moment the schema may change",
}
"""Test files that use a private name or patch weft's code, each with its reason."""

MOST_PRONOUNS = 0.5  # in 100 words of docstrings
MOST_WORDS = 1000  # of ARCHITECTURE.md, a page


def test_no_room_exceeds_its_budget() -> None:
    rooms = shape.budgets()["rooms"]
    over = {
        room: f"{lines} lines, {rooms[room]['lines']} allowed"
        for room, lines in shape.room_lines().items()
        if lines > rooms[room]["lines"]
    }
    assert over == {}, "remove code, or raise the budget in a commit of its own with its reason"


def test_the_house_stays_small() -> None:
    size = shape.budgets()["size"]
    long_files = [
        str(path.relative_to(ROOT))
        for path in shape.files()
        if len(path.read_text().splitlines()) > size["file_lines"]
    ]
    functions = list(chain.from_iterable(map(shape.function_sizes, shape.files())))
    assert len(shape.files()) <= size["files"]
    assert shape.records() <= size["records"]
    assert long_files == size["longer_files"]
    assert [
        function.name for function in functions if function.lines > size["function_lines"]
    ] == size["longer_functions"]
    assert [
        function.name
        for function in functions
        if function.name.startswith("cli/")
        and function.name.endswith(":command")
        and (
            function.lines > size["command_lines"]
            or function.parameters > size["command_parameters"]
        )
    ] == size["longer_commands"]


def test_a_class_name_is_defined_once() -> None:
    repeated = {name: places for name, places in shape.class_names().items() if len(places) > 1}
    assert {name: places for name, places in repeated.items() if name not in REPEATED} == {}
    assert REPEATED.keys() <= repeated.keys()


def test_a_module_name_is_used_once() -> None:
    repeated = {name for name, count in shape.module_names().items() if count > 1}
    assert repeated == REPEATED_MODULES.keys()


def test_local_variables_are_nouns() -> None:
    vague = {str(path.relative_to(ROOT)): shape.vague_locals(path) for path in shape.files()}
    assert {path: count for path, count in vague.items() if count} == {}


def test_tests_use_public_names_and_do_not_patch_weft() -> None:
    tests = (ROOT / "tests").rglob("*.py")
    uses = {path.name: places for path in tests if (places := shape.private_uses(path))}
    assert {name: places for name, places in uses.items() if name not in PRIVATE} == {}
    assert PRIVATE.keys() == uses.keys()


def test_no_docstring_begins_with_a_wh_word() -> None:
    riddles = [
        f"{text.path.relative_to(ROOT)}:{text.line}"
        for path in shape.files()
        for text in shape.docstrings(path)
        if text.begins_with_wh
    ]
    assert riddles == []


def test_docstrings_name_things_instead_of_using_pronouns() -> None:
    texts = [text.text for path in shape.files() for text in shape.docstrings(path)]
    assert shape.pronoun_rate(texts) < MOST_PRONOUNS


def test_the_code_map_names_every_package_and_no_other() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    code_map = text[text.index("## Code map") : text.index("## Invariants")]
    rows = [line.split("|")[1] for line in code_map.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    packages = {
        path.stem
        for path in shape.SOURCES.iterdir()
        if not path.name.startswith("__")
        and (path.suffix == ".py" or (path / "__init__.py").exists())
    }
    assert named == packages


def test_the_architecture_fits_on_a_page() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().split()) <= MOST_WORDS


@each_case("document", DOCUMENTS)
def test_a_file_or_directory_named_in_the_documents_exists(document: Path) -> None:
    named = re.findall(r"`((?!refs/)(?:\w+/)+(?:\w+\.(?:py|sql|md))?)`", document.read_text())
    missing = [
        name for name in named if not (shape.SOURCES / name).exists() and not (ROOT / name).exists()
    ]
    assert missing == []


@each_case("document", DOCUMENTS)
def test_a_link_between_documents_leads_to_a_file(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []
