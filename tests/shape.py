"""Measure the size of the sources and the plainness of their words: `make shape`.

A pronoun is a word such as *what*, *who* or *nobody* that stands where a noun could. A vague local
is a variable whose name is no noun, such as `one` or `found`. `python tests/shape.py store gate`
measures these packages alone.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "weft"
PRONOUN = re.compile(
    r"\b(what|whatever|who|whoever|whom|nobody|somebody|anybody|everybody|nothing|something|"
    r"anything|everything|one|ones|others)\b",
    re.IGNORECASE,
)
VAGUE = frozenset(("one", "ones", "other", "others", "found", "told", "said", "thing", "things"))
WORD = re.compile(r"[A-Za-z']+")
WH = re.compile(r"(what|who|whoever|whatever|whom|whose|how|where|when|whether|why|which)\b", re.I)


@dataclass(frozen=True)
class Docstring:
    """A docstring and the place it stands in."""

    path: Path
    line: int
    text: str

    @property
    def begins_with_wh(self) -> bool:
        return WH.match(self.text) is not None


def files(packages: Sequence[str] = ()) -> list[Path]:
    """List the source files, or those of the named packages and modules below `weft`."""
    chosen = [SOURCES / name for name in packages] or [SOURCES]
    return sorted(
        path
        for place in chosen
        for path in (place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")])
    )


def docstrings(path: Path) -> Iterator[Docstring]:
    """Yield the docstrings of a module, its classes, functions and documented names."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                yield Docstring(path, node.lineno, text.strip())


def code_lines(path: Path) -> int:
    """Count the lines that are not blank, comment or docstring."""
    text = path.read_text()
    lines: set[int] = set()
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped and token.type != tokenize.ENDMARKER:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def budgets() -> dict[str, Any]:
    return tomllib.loads((ROOT / "budgets.toml").read_text())


def room_lines() -> dict[str, int]:
    """Count the lines of code of each room in budgets.toml; the rest is the kernel."""
    rooms = budgets()["rooms"]
    home = {package: room for room, budget in rooms.items() for package in budget["packages"]}
    lines = dict.fromkeys(rooms, 0)
    for path in files():
        lines[home.get(path.relative_to(SOURCES).parts[0].removesuffix(".py"), "kernel")] += (
            code_lines(path)
        )
    return lines


def records() -> int:
    """Count the classes that only hold fields: dataclasses, structs and named tuples."""
    return sum(
        isinstance(node, ast.ClassDef)
        and (
            any("dataclass" in ast.unparse(mark) for mark in node.decorator_list)
            or any(ast.unparse(base) in ("Struct", "NamedTuple") for base in node.bases)
        )
        for path in files()
        for node in ast.walk(ast.parse(path.read_text()))
    )


@dataclass(frozen=True)
class FunctionSize:
    """A function, its lines and the number of its parameters."""

    name: str
    lines: int
    parameters: int


def function_sizes(path: Path) -> Iterator[FunctionSize]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield FunctionSize(
                f"{path.relative_to(SOURCES)}:{node.name}",
                (node.end_lineno or node.lineno) - node.lineno + 1,
                len(node.args.args) + len(node.args.kwonlyargs),
            )


def comments(path: Path) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def vague_locals(path: Path) -> int:
    """Count the variables and parameters that are bound to a name which is no noun."""
    return sum(
        (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE)
        or (isinstance(node, ast.arg) and node.arg in VAGUE)
        for node in ast.walk(ast.parse(path.read_text()))
    )


def class_names() -> dict[str, list[str]]:
    """Map each class name to the modules that define it."""
    places: dict[str, list[str]] = {}
    for path in files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(SOURCES)))
    return places


def module_names() -> Counter[str]:
    return Counter(path.stem for path in files() if path.stem not in ("__init__", "__main__"))


def private_uses(path: Path) -> list[str]:
    """List the places at which a test uses a private name of another module, or patches weft."""
    tree = ast.parse(path.read_text())
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "weft"
        for alias in node.names
    }
    places = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.expr | ast.ImportFrom)
        and (_reads_private_name(node) or _patches(node, imported))
    ]
    return [f"{path.name}:{line}" for line in sorted(places)]


def _is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__")


def _reads_private_name(node: ast.expr | ast.ImportFrom) -> bool:
    match node:
        case ast.ImportFrom(module=str() as module, names=names):
            return module.partition(".")[0] == "weft" and any(_is_private(a.name) for a in names)
        case ast.Attribute(value=ast.Name(id="self" | "cls" | "os" | "sys")):
            return False
        case ast.Attribute(attr="_replace"):  # of a named tuple
            return False
        case ast.Attribute(attr=name):
            return _is_private(name)
        case ast.Subscript(value=ast.Call(func=ast.Name(id="vars")), slice=ast.Constant(value=key)):
            return _is_private(key)
    return False


def _patches(node: ast.expr | ast.ImportFrom, imported: set[str]) -> bool:
    match node:
        case ast.ImportFrom(module="unittest.mock"):
            return True
        case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Name(id=target), *_]):
            return target in imported
        case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Constant(value=target), *_]):
            return str(target).startswith("weft.")
        case ast.Subscript(value=ast.Call(func=ast.Name(id="vars"), args=[ast.Name(id=target)])):
            return target in imported and isinstance(node.ctx, ast.Store)
    return False


def modules_of_a_run() -> int:
    """Count the modules that `weft run` loads to bring one task from a plan to trunk."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        agent = root / ".weft" / "agents" / "implement.md"
        agent.parent.mkdir(parents=True)
        agent.write_text("---\nruns: scripted\n---\n{{ task.text }}\n")
        (root / "weft.toml").write_text('[gate]\nrun = "true"\n')
        (root / "plan.md").write_text(
            "## Phase 1: All\n\n- [ ] Write\n  <!-- files: a -->\n  - script: write a x\n"
        )
        for command in (
            ("git", "init", "-q"),
            ("git", "add", "-A"),
            ("git", "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-qm", "first"),
        ):
            subprocess.run(command, cwd=root, check=True)
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "weft", "run", "plan.md"],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
    return len(set(re.findall(r"\|\s+(weft\.[\w.]+)$", done.stderr, re.MULTILINE)))


def pronoun_rate(texts: Sequence[str]) -> float:
    """Return the pronouns in 100 words."""
    words = sum(len(WORD.findall(text)) for text in texts)
    return round(100 * sum(len(PRONOUN.findall(text)) for text in texts) / (words or 1), 2)


def main(packages: Sequence[str]) -> None:
    paths = files(packages)
    texts = [text for path in paths for text in docstrings(path)]
    wh = sum(text.begins_with_wh for text in texts)
    figures: dict[str, float] = {
        "files": len(paths),
        "lines_of_code": sum(map(code_lines, paths)),
        "docstrings": len(texts),
        "pronouns_per_100_docstring_words": pronoun_rate([text.text for text in texts]),
        "percent_of_docstrings_that_begin_with_wh": round(100 * wh / (len(texts) or 1), 1),
        "pronouns_per_100_comment_words": pronoun_rate(
            [c for path in paths for c in comments(path)]
        ),
        "vague_locals": sum(map(vague_locals, paths)),
    }
    if not packages:
        rooms = budgets()["rooms"]
        for room, lines in room_lines().items():
            print(f"room {room}: {lines} lines of {rooms[room]['lines']}")
        figures |= {
            "records": records(),
            "repeated_class_names": sum(len(places) > 1 for places in class_names().values()),
            "repeated_module_names": sum(count > 1 for count in module_names().values()),
            "modules_from_plan_to_trunk": modules_of_a_run(),
        }
    for name, value in figures.items():
        print(f"{name} {value}")


if __name__ == "__main__":
    main(sys.argv[1:])
