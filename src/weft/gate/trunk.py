"""Trunk: the run's branch, which nothing else moves.

A landing is written down, then the reference moves by compare-and-swap, then the rows follow.
Cut short anywhere, it is rolled forward by whoever holds the gate next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from weft import git
from weft.errors import Refused, WeftError
from weft.gate.commits import Landing as Commit
from weft.gate.commits import commit_chain, tree_of
from weft.gate.merge import Candidate, Step, merge
from weft.gate.plumbing import Plumbing
from weft.git import RefMoved, Update
from weft.model import Entry, Landing
from weft.store import Store
from weft.store.gate import block_gate, complete, intend
from weft.workspace.names import trunk_ref

Fault = Callable[[str], None]
"""Called at each point where a crash must do no harm; tests crash there."""


class Blocked(WeftError):
    """The gate cannot go on without a person."""


def candidates(entries: Sequence[Entry]) -> list[Candidate]:
    return [Candidate(commit=one, base=base) for entry in entries for one, base in entry.work]


def merged(plumbing: Plumbing, tip: str, entries: Sequence[Entry]) -> list[tuple[Step, ...]]:
    """The steps of each entry on top of those before it."""
    steps = iter(merge(plumbing, tip, candidates(entries)))
    return [tuple(next(steps) for _ in entry.work) for entry in entries]


def land(
    store: Store,
    repository: Path,
    plumbing: Plumbing,
    fence: int,
    run: str,
    *,
    tip: str,
    entries: Sequence[Entry],
    tree: str,
    squash: str,
    at: Fault,
) -> Landing:
    """Land entries whose tree, merged on the tip, is exactly the one that was checked."""
    works = merged(plumbing, tip, entries)
    chain: list[Commit] = []
    ends: list[int] = []
    for entry, steps in zip(entries, works, strict=True):
        chain += _commits(entry, steps, squash)
        ends.append(len(chain) - 1)
    if chain[-1].tree != tree:
        raise WeftError(f"The tree to land, {chain[-1].tree}, is not the one checked, {tree}.")
    made = commit_chain(plumbing, tip, chain, committed=int(time.time()))
    at("built")
    landing = intend(
        store,
        fence,
        run,
        old=tip,
        new=made[-1],
        tree=tree,
        entries=[entry.id for entry in entries],
        commits=[made[end] for end in ends],
        now=time.time(),
    )
    at("intended")
    roll_forward(store, repository, plumbing, fence, landing, at=at)
    return landing


def _commits(entry: Entry, steps: Sequence[Step], squash: str) -> list[Commit]:
    trailers = (("Weft-Run", entry.run),)
    if squash == "story" and len(steps) > 1:
        whole = tuple(step.candidate.commit for step in steps)
        return [Commit(tree=steps[-1].tree, candidates=whole, trailers=trailers)]
    return [
        Commit(tree=step.tree, candidates=(step.candidate.commit,), trailers=trailers)
        for step in steps
    ]


def roll_forward(
    store: Store,
    repository: Path,
    plumbing: Plumbing,
    fence: int,
    landing: Landing,
    *,
    at: Fault,
) -> None:
    """Complete a landing that was written down, however far it had come."""
    ref = trunk_ref(landing.run)
    if tree_of(plumbing, landing.new) != landing.tree:
        raise WeftError(f"Commit {landing.new} does not hold the tree that was checked.")
    for _ in range(2):
        where = git.find_ref(repository, ref)
        if where is not None and (where == landing.new or contains(repository, where, landing.new)):
            break
        if where != landing.old:
            refuse_foreign(store, fence, landing.run, landing.old, where)
        try:
            git.update_refs(
                repository,
                [Update(ref=ref, old=landing.old, new=landing.new)],
                why=f"weft: landing {landing.sequence}",
            )
        except RefMoved:
            continue  # somebody moved it in this moment: look again
        break
    else:
        refuse_foreign(store, fence, landing.run, landing.old, git.find_ref(repository, ref))
    at("moved")
    complete(store, fence, landing.run, landing.sequence, now=time.time())
    at("completed")


def refuse_foreign(
    store: Store, fence: int, run: str, expected: str, where: str | None
) -> NoReturn:
    """Somebody else moved trunk: nothing is overwritten, and a person has to look."""
    short = ref_name(run)
    reason = (
        f"{short} is at {(where or 'nothing')[:12]}, not at {expected[:12]} where weft left it: "
        f"somebody else moved it. Put it back (`git branch -f {short} {expected[:12]}`), then "
        f"`weft resume {run}`."
    )
    block_gate(store, fence, run, reason, now=time.time())
    raise Blocked(reason)


def ref_name(run: str) -> str:
    return trunk_ref(run).removeprefix("refs/heads/")


def contains(repository: Path, commit: str, ancestor: str) -> bool:
    """Whether a commit is a descendant of another."""
    return git.is_ancestor(repository, ancestor, commit)


def open_trunk(repository: Path, run: str, base: str) -> None:
    """Make a run's trunk at its base, unless it is there."""
    ref = trunk_ref(run)
    if git.find_ref(repository, ref) is None:
        try:
            git.update_refs(repository, [Update(ref=ref, old=None, new=base)], why="weft: trunk")
        except RefMoved as error:
            if git.find_ref(repository, ref) is None:
                raise Refused(f"git cannot make {ref_name(run)}: {error}") from error
