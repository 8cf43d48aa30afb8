"""Predictions from a text: each clue by itself, hubs, and any input."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from weft.planning.history import History, distinct_words, list_identifiers
from weft.planning.predictor import (
    Clue,
    FileTree,
    Mirrors,
    find_imports,
    find_named,
    list_companions,
    predict,
)

TREE = (
    "src/parser.py",
    "src/lexer.py",
    "src/store.py",
    "src/unit.py",
    "tests/test_parser.py",
    "CHANGELOG.md",
    "run",
)


def planted() -> History:
    history = History()
    for number in range(9):
        files = ["src/parser.py", "src/lexer.py"] if number < 7 else ["src/store.py"]
        history.add(f"let the parser read number {number}", files)
    for number in range(40):
        history.add(f"chore {number}", ["docs/notes.md", f"docs/page{number}.md"])
    return history


def test_similar_messages_predict_files_with_a_reason_that_counts() -> None:
    first, second, *_ = predict("Teach parsers about dates", planted(), FileTree(TREE))
    assert {first.path, second.path} == {"src/parser.py", "src/lexer.py"}
    assert "changed in 7 of 9 commits that mention parsers" in (first.reason, second.reason)
    assert first.probability > 0.5


def test_a_path_and_a_unique_file_name_in_the_text_are_predicted_first() -> None:
    for text in ("Mend src/unit.py", "Mend unit.py"):
        first = predict(text, planted(), FileTree(TREE))[0]
        assert (first.path, first.reason) == ("src/unit.py", "the text names it")


def test_a_usual_word_is_no_file_name() -> None:
    assert find_named("run the tests", FileTree(TREE)) == ()
    assert find_named("mend Makefile", FileTree((*TREE, "Makefile"))) == ("Makefile",)


def test_the_file_that_defines_an_identifier_is_predicted() -> None:
    tree = FileTree(TREE, definitions={"read_unit": ("src/unit.py",)})
    first = predict("Call read_unit twice", History(), tree)[0]
    assert (first.path, first.reason) == ("src/unit.py", "it defines read_unit")


def test_a_file_brings_the_files_that_change_with_it_its_test_and_its_imports() -> None:
    tree = FileTree(TREE, imports={"src/parser.py": ("src/store.py",)})
    hints = {hint.path: hint for hint in list_companions("src/parser.py", planted(), tree)}
    assert hints["src/lexer.py"].reason == "changed in 7 of 7 commits that change src/parser.py"
    assert hints["tests/test_parser.py"].reason == "the test of src/parser.py"
    assert hints["src/store.py"].clue is Clue.IMPORT
    files = {file.path: file for file in predict("Mend src/parser.py", planted(), tree)}
    assert files["src/lexer.py"].probability > files["src/store.py"].probability
    assert "src/unit.py" not in files


def test_a_hub_is_marked_and_brings_no_other_files() -> None:
    history = planted()
    for number in range(20):
        history.add(f"release {number}", ["CHANGELOG.md", f"docs/page{number}.md"])
    files = predict("Write a release note", history, FileTree((*TREE, "docs/page1.md")))
    assert [file.path for file in files if file.may_touch] == ["CHANGELOG.md"]
    assert all("CHANGELOG" not in file.reason for file in files)


@given(st.text(max_size=200), st.lists(st.text(max_size=30), max_size=5))
def test_any_text_and_tree_give_probabilities_in_order(text: str, names: list[str]) -> None:
    files = predict(text, planted(), FileTree((*TREE, *names)))
    chances = [file.probability for file in files]
    assert chances == sorted(chances, reverse=True)
    assert all(0 < chance <= 1 for chance in chances)
    assert all(file.reason for file in files)
    assert len({file.path for file in files}) == len(files)


@each_case(
    ("test", "source"),
    [
        ("tests/test_parser.py", "src/parser.py"),
        ("pkg/parser_test.go", "pkg/parser.go"),
        ("web/parser.test.ts", "web/parser.ts"),
        ("web/parser.spec.tsx", "web/parser.tsx"),
        ("src/test/ParserTest.java", "src/main/Parser.java"),
    ],
)
def test_a_test_mirrors_its_source(test: str, source: str) -> None:
    mirrors = Mirrors([test, source, "other/notes.md"])
    assert mirrors.list_tests(source) == (test,)
    assert mirrors.list_sources(test) == (source,)
    assert mirrors.list_tests(test) == ()


def test_of_several_mirrors_the_nearest_counts() -> None:
    mirrors = Mirrors(["tests/a/test_x.py", "tests/b/test_x.py", "src/a/x.py"])
    assert mirrors.list_tests("src/a/x.py") == ("tests/a/test_x.py",)


@each_case(
    ("path", "text", "imported"),
    [
        ("src/app/a.py", "from app.b import c\nimport app.d\n", ("src/app/b.py", "src/app/d.py")),
        ("src/app/a.py", "from app import b\n", ("src/app/b.py",)),
        ("src/app/a.py", "from . import b\nfrom .d import x\n", ("src/app/b.py", "src/app/d.py")),
        ("web/a.ts", "import x from './b'\n", ("web/b.ts",)),
        ("web/a.ts", 'const x = require("../lib")\n', ("lib/index.js",)),
        ("notes.md", "from app import b\n", ()),
        ("src/app/a.py", "import os\nfrom ...... import x\n", ()),
    ],
)
def test_imports_lead_to_files_of_the_tree(path: str, text: str, imported: tuple[str, ...]) -> None:
    tree = {"src/app/a.py", "src/app/b.py", "src/app/d.py", "web/b.ts", "lib/index.js"}
    assert find_imports(path, text, tree) == imported


def test_words_are_parts_of_names_without_endings_and_without_common_words() -> None:
    words = distinct_words("Let the HttpParser parse_headers when parsing")
    assert list(words) == ["http", "pars", "head"]
    assert list_identifiers("call parse_it and HttpParser, not parse or it_") == [
        "parse_it",
        "HttpParser",
    ]
