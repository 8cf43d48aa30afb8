"""README and docs as a reader uses them: their blocks, and the programs that they assume."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from repositories import commit_all, make_repository

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

CLAUDE = """\
#!{python}
import json, os, sys
from pathlib import Path

if "--version" in sys.argv:
    print("2.1.325 (Claude Code)")
    sys.exit(0)
prompt = sys.stdin.read()
with Path(os.environ["HOME"], ".claude", "starts").open("a") as file:
    print("started", file=file)
for name in ("USAGE.md", "QUESTIONS.md", "INDEX.md"):
    if f"in {{name}}" in prompt or f"from {{name}}" in prompt:
        Path(name).write_text("written\\n")
lines = [
    {{"type": "system", "subtype": "init", "session_id": "s"}},
    {{"type": "result", "subtype": "success", "is_error": False, "result": "Done.",
      "session_id": "s", "total_cost_usd": 0.01, "usage": {{}}}},
]
print("\\n".join(map(json.dumps, lines)))
"""
"""A program that behaves like claude and writes the file that the task of README's plan names."""


def blocks(document: Path, language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(document.read_text()) if name == language]


def programs(directory: Path) -> dict[str, str]:
    """Return an environment in which `weft` and `claude` are installed."""
    directory.mkdir(exist_ok=True)
    (directory / "claude").write_text(CLAUDE.format(python=sys.executable))
    (directory / "claude").chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "GIT_"))}
    author = {"GIT_AUTHOR_NAME": "You", "GIT_AUTHOR_EMAIL": "you@example.org"}
    author |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in author.items()}
    path = f"{directory}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**kept, **author, "PATH": path, "HOME": str(directory.parent), "COLUMNS": "80"}


def make_project(root: Path) -> Path:
    make_repository(root)
    (root / "Makefile").write_text("test:\n\ttrue\n")
    commit_all(root)
    return root


def run_block(
    text: str, root: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", text],
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def run_blocks(document: Path, root: Path, environment: dict[str, str]) -> None:
    for text in blocks(document, "sh"):
        done = run_block(text, root, environment)
        assert done.returncode == 0, f"{document.name}\n{text}\n{done.stdout}\n{done.stderr}"
