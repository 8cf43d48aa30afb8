"""Repositories made of dictionaries, and `git merge` in a real working tree as the judge."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGABRT
from typing import NamedTuple

from weft.gate.merge import MergeCandidate

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "test",
    "GIT_AUTHOR_EMAIL": "test@localhost",
    "GIT_COMMITTER_NAME": "test",
    "GIT_COMMITTER_EMAIL": "test@localhost",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
}


class File(NamedTuple):
    content: bytes = b""
    mode: str = "100644"


Files = Mapping[bytes, File]


class Verdict(NamedTuple):
    """What became of a candidate: the tree afterwards, and whether it went in."""

    tree: str
    clean: bool


class Repository:
    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "-q", "-b", "main", *options)

    def git(self, *arguments: str, stdin: bytes = b"", index: str | None = None) -> str:
        done = self.attempt(*arguments, stdin=stdin, index=index)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout.decode(errors="surrogateescape").removesuffix("\n")

    def attempt(
        self, *arguments: str, stdin: bytes = b"", index: str | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env=ENVIRONMENT if index is None else {**ENVIRONMENT, "GIT_INDEX_FILE": index},
            input=stdin,
            capture_output=True,
            check=False,
        )

    def commit(self, files: Files, *parents: str, message: str = "m") -> str:
        (made,) = self.commits([(files, parents)], message)
        return made

    def commits(
        self, wanted: Sequence[tuple[Files, Sequence[str]]], message: str = "m"
    ) -> list[str]:
        """One commit each; a parent is an id, or `:2` for the second of this call."""
        stream = []
        for number, (files, parents) in enumerate(wanted, start=1):
            stream.append(
                f"commit refs/made/{number}\nmark :{number}\n"
                "committer test <test@localhost> 1700000000 +0000\n".encode()
                + _data(message.encode())
            )
            for word, parent in zip(("from", *["merge"] * 9), parents, strict=False):
                stream.append(f"{word} {parent}\n".encode())
            stream.append(b"deleteall\n")
            for path, file in files.items():
                stream.append(_modify(path, file))
            stream.append(f"get-mark :{number}\n".encode())
        # A ref that exists would be taken for the first parent.
        refs = "".join(f"delete refs/made/{n + 1}\n" for n in range(len(wanted)))
        answer = self.git("fast-import", "--quiet", "--force", stdin=b"".join(stream))
        self.git("update-ref", "--stdin", stdin=refs.encode())
        return answer.split("\n")

    def tree(self, commit: str) -> str:
        return self.git("rev-parse", f"{commit}^{{tree}}")

    def files(self, tree: str) -> dict[bytes, tuple[str, str]]:
        listed = self.git("ls-tree", "-r", "-z", tree).encode(errors="surrogateescape")
        found = {}
        for record in listed.split(b"\0")[:-1]:
            facts, _, path = record.partition(b"\t")
            mode, _, id = facts.decode().split(" ")
            found[path] = (mode, id)
        return found

    def read(self, tree: str, path: str) -> bytes:
        done = self.attempt("cat-file", "blob", f"{tree}:{path}")
        assert done.returncode == 0, done.stderr
        return done.stdout


class Judge:
    """`git merge`, in a working tree, of one candidate after the other."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository

    def merge(self, tip: str, candidates: Sequence[MergeCandidate]) -> list[Verdict]:
        self._go_to(tip)
        verdicts = []
        for one in candidates:
            verdict = self._merge_one(tip, one)
            if verdict.clean:
                tip = self.repository.git("commit-tree", verdict.tree, "-p", tip, "-m", "m")
                self.repository.git("reset", "-q", "--soft", tip)
            else:
                self._go_to(tip)
            verdicts.append(verdict)
        return verdicts

    def _merge_one(self, tip: str, candidate: MergeCandidate) -> Verdict:
        # A candidate may stand on a sibling's, which trunk has in other words.
        onto = self._with_base(tip, candidate.base)
        if onto != tip:
            self.repository.git("reset", "-q", "--soft", onto)
        done = self.repository.attempt("merge", "-q", "--squash", candidate.commit)
        if done.returncode == 0:
            return Verdict(self.repository.git("write-tree"), clean=True)
        if done.returncode not in (1, -SIGABRT):  # git 2.39 breaks assertions of its own
            assert b"unrelated histories" in done.stderr, done.stderr
        return Verdict(self.repository.tree(tip), clean=False)

    def _with_base(self, tip: str, base: str) -> str:
        known = self.repository.attempt("merge-base", "--is-ancestor", base, tip)
        if known.returncode == 0:
            return tip
        return self.repository.git(
            "commit-tree", f"{tip}^{{tree}}", "-p", tip, "-p", base, "-m", "m"
        )

    def _go_to(self, commit: str) -> None:
        # Not `reset --hard`: after a conflict it leaves files it never knew.
        for entry in self.repository.path.iterdir():
            if entry.name != ".git":
                shutil.rmtree(
                    entry
                ) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        (self.repository.path / ".git" / "index.lock").unlink(missing_ok=True)
        self.repository.git("checkout", "-q", "--detach", "-f", commit)


def _modify(path: bytes, file: File) -> bytes:
    quoted = b'"' + b"".join(b"\\%03o" % byte for byte in path) + b'"'
    if file.mode == "160000":
        return b"M 160000 " + file.content + b" " + quoted + b"\n"
    return b"M " + file.mode.encode() + b" inline " + quoted + b"\n" + _data(file.content)


def _data(content: bytes) -> bytes:
    return b"data %d\n" % len(content) + content + b"\n"
