"""Trunk: the run's branch, which only the gate moves, and the commits that land there.

A merged tree becomes one commit per candidate, or one per story. Equal input gives equal ids, so an
interrupted landing can be built again. A landing is recorded, then the reference moves by
compare-and-swap, then the rows follow. After a crash anywhere, the next holder of the gate rolls
the landing forward.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final, NoReturn

from msgspec import Struct

from weft import git
from weft.candidate_records import Entry, Landing
from weft.errors import WeftError
from weft.gate.merge import MergeStep
from weft.git import RefMoved, Update, split_trailers
from weft.git.object_store import ObjectStore
from weft.git.objects import Object, identify, make_commit, read_commit
from weft.model import BranchMerge
from weft.store import Store
from weft.store.gate import block_gate, complete, intend
from weft.workspace.names import landing_refs, trunk_ref
from weft.workspace.worktree import find_checkout

_PAUSES: Final = (0.05, 0.2, 0.5)
"""Seconds between tries to move a reference. Another git may lock its files, seldom for long."""

CrashPoint = Callable[[str], None]
"""Called at each point where a crash must do no harm; tests crash there."""
_COMMITTER: Final = b"weft <weft@localhost>"


class GateBlocked(WeftError):
    """The gate waits for a person."""


def land(
    store: Store,
    repository: Path,
    objects: ObjectStore,
    fence: int,
    run: str,
    *,
    tip: str,
    chain: Sequence[tuple[Entry, Sequence[LandingCommit]]],
    revision: int,
    every_commit: bool,
    at: CrashPoint,
) -> None:
    """Land entries, each with the commits to make of it.

    The caller has checked that the last tree passed under this revision of the run's settings, and
    with `every_commit` that the tree of each commit passed.
    """
    commits = [commit for _, its_commits in chain for commit in its_commits]
    made = commit_chain(objects, tip, commits, committed=int(time.time()))
    ends = accumulate(len(its_commits) for _, its_commits in chain)
    keep(repository, landing_refs(run), tip, made[-1])
    at("built")
    landing = intend(
        store,
        fence,
        run,
        old=tip,
        new=made[-1],
        tree=commits[-1].tree,
        entries=[entry.id for entry, _ in chain],
        commits=[made[end - 1] for end in ends],
        revision=revision,
        every_commit=every_commit,
        now=time.time(),
    )
    at("intended")
    roll_forward(store, repository, objects, fence, landing, at=at)


def keep(repository: Path, prefix: str, tip: str, new: str) -> None:
    """Make the commits from a tip to a new commit reachable, by a reference below a prefix, and
    check that no object is missing."""
    ref = f"{prefix}{new}"
    kept = Update(ref=ref, old=git.find_ref(repository, ref), new=new)
    git.update_refs_to_whole(repository, [kept], excluding=tip, why="weft: to land")


def commits_of(entry: Entry, steps: Sequence[MergeStep], story: str | None) -> list[LandingCommit]:
    """Return a commit per task, or a single commit under the title of a story."""
    trailers = (("Weft-Run", entry.run),)
    if story is not None:
        whole = tuple(step.candidate.commit for step in steps)
        tree = steps[-1].tree
        return [LandingCommit(tree=tree, candidates=whole, message=story, trailers=trailers)]
    return [
        LandingCommit(tree=step.tree, candidates=(step.candidate.commit,), trailers=trailers)
        for step in steps
    ]


def commit_of_repair(
    entry: Entry, steps: Sequence[MergeStep], merge: BranchMerge
) -> list[LandingCommit]:
    """Return the commit that merges a branch into trunk, as a repair task completed it."""
    candidates = (steps[-1].candidate.commit,)
    trailers = (("Weft-Run", entry.run),)
    tree, parents = steps[-1].tree, (merge.tip,)
    return [LandingCommit(tree=tree, candidates=candidates, parents=parents, trailers=trailers)]


def roll_forward(
    store: Store,
    repository: Path,
    objects: ObjectStore,
    fence: int,
    landing: Landing,
    *,
    at: CrashPoint,
) -> None:
    """Complete a recorded landing from any of its stages."""
    if tree_of(objects, landing.new) != landing.tree:
        raise WeftError(f"Commit {landing.new} does not hold the tree that was checked.")
    run = landing.run
    swap(
        repository,
        trunk_ref(run),
        landing.old,
        landing.new,
        drop=(landing_refs(run),),
        refuse=lambda where: refuse_foreign(
            store, repository, objects, fence, run, landing.old, where
        ),
        ready=lambda: _refuse_checked_out(store, repository, fence, run),
        at=at,
        why=f"weft: landing {landing.sequence}",
    )
    at("moved")
    complete(store, fence, landing.run, landing.sequence, now=time.time())
    at("completed")


def swap(
    repository: Path,
    ref: str,
    old: str,
    new: str,
    *,
    drop: Sequence[str],
    refuse: Callable[[str | None], object],
    at: CrashPoint,
    why: str,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Move a reference by compare-and-swap, unless it holds the new commit already.

    With it go the references below `drop`. Call `refuse`, which raises, with its commit if another
    program moved it, and `ready` before each try.
    """
    for pause in _PAUSES:
        refs = git.list_refs(repository, ref, *drop)
        where = refs.pop(ref, None)
        done = [Update(ref=kept, old=commit, new=None) for kept, commit in refs.items()]
        if where != old:
            if where is None or not git.is_ancestor(repository, new, where):
                refuse(where)
            with contextlib.suppress(RefMoved):  # the process that moved it does this too
                git.update_refs(repository, done)
            return
        ready()
        at("moving")
        try:
            git.update_refs(repository, [Update(ref=ref, old=old, new=new), *done], why=why)
        except RefMoved as error:  # or it is locked by another git at this moment
            refusal = error
            time.sleep(pause)
        else:
            return
    raise refusal


def _refuse_checked_out(store: Store, repository: Path, fence: int, run: str) -> None:
    """Block the gate while a person has trunk checked out: those files would not follow trunk."""
    checkout = find_checkout(repository, trunk_ref(run))
    if checkout is not None:
        short = ref_name(run)
        block(
            store,
            fence,
            run,
            f"{short} is checked out in {checkout} and cannot move there. Leave it "
            f"(`git -C {checkout} switch --detach`), then `weft resume {run}`.",
        )


def refuse_foreign(
    store: Store,
    repository: Path,
    objects: ObjectStore,
    fence: int,
    run: str,
    expected: str,
    where: str | None,
) -> NoReturn:
    """Block the gate because trunk is not at its recorded commit."""
    short = ref_name(run)
    put_back = f"`git branch -f {short} {expected[:12]}`"
    if where is not None and _is_forgotten(repository, objects, run, expected, where):
        reason = (
            f"{short} is at {where[:12]}, landed by weft after {expected[:12]}, the last landing "
            "that the store knows: the store has lost rows (a restored backup, or a failover). "
            f"Keep the landed work (`git branch kept-{run} {where[:12]}`), put trunk back "
            f"({put_back}), then `weft resume {run}`: the tasks whose landing was lost are done "
            "again."
        )
    else:
        reason = (
            f"{short} is at {(where or 'nothing')[:12]}, not at {expected[:12]} where weft left "
            f"it: another program moved it. Put it back ({put_back}), then `weft resume {run}`."
        )
    block(store, fence, run, reason)


def _is_forgotten(
    repository: Path, objects: ObjectStore, run: str, expected: str, where: str
) -> bool:
    """Tell whether trunk is at a landing of weft that came after the last that is recorded."""
    return is_landing(objects, where, run) and git.is_ancestor(repository, expected, where)


def block(store: Store, fence: int, run: str, reason: str) -> NoReturn:
    block_gate(store, fence, run, reason, now=time.time())
    raise GateBlocked(reason)


def ref_name(run: str) -> str:
    return trunk_ref(run).removeprefix("refs/heads/")


def open_trunk(repository: Path, run: str, base: str) -> None:
    """Make a run's trunk at its base, unless it is there."""
    ref = trunk_ref(run)
    if git.find_ref(repository, ref) is None:
        try:
            git.update_refs(repository, [Update(ref=ref, old=None, new=base)], why="weft: trunk")
        except RefMoved:  # another process may have made it in this moment
            if git.find_ref(repository, ref) is None:
                raise


class LandingCommit(Struct, frozen=True, kw_only=True):
    """A merged tree and the candidates whose work it holds."""

    tree: str
    candidates: tuple[str, ...]  # commits; the last gives author, date and message
    message: str | None = None  # replaces that message, for a story
    parents: tuple[str, ...] = ()  # besides the commit before it: a branch that it merges
    trailers: tuple[tuple[str, str], ...] = ()  # added: ("Weft-Task", "7")


def commit_chain(
    objects: ObjectStore, tip: str, landings: Sequence[LandingCommit], *, committed: int
) -> tuple[str, ...]:
    """Write a chain of commits on the tip and return their ids.

    `committed` is the committer's date in seconds since 1970.
    """
    candidates = list(dict.fromkeys(id for landing in landings for id in landing.candidates))
    contents = dict(zip(candidates, objects.read_commits(candidates), strict=True))
    chain: dict[str, Object] = {}
    parent = tip
    for landing in landings:
        sources = [contents[id] for id in landing.candidates]
        commit = _build(landing, sources, parent, committed)
        parent = identify(commit, tip)
        chain[parent] = commit
    objects.write(chain)
    return tuple(chain)


def tree_of(objects: ObjectStore, commit: str) -> str:
    """Return the tree of a commit, without the repository's replacements."""
    (content,) = objects.read_commits([commit])
    return read_commit(content)[0][b"tree"].decode()


def is_landing(objects: ObjectStore, commit: str, run: str) -> bool:
    """Tell whether weft made a commit to land work of a run."""
    (content,) = objects.read_commits([commit])
    _, trailers = split_trailers(read_commit(content)[1])
    return f"Weft-Run: {run}".encode() in trailers


def _build(landing: LandingCommit, sources: Sequence[bytes], parent: str, committed: int) -> Object:
    read = [read_commit(source) for source in sources]
    headers, message = read[-1]
    encoding = headers.get(b"encoding")
    if landing.message is not None:
        message, encoding = landing.message.encode(errors="surrogateescape"), None
    text, _ = split_trailers(message)
    trailers = [
        *(
            line
            for original in (*(original for _, original in read), message)
            for line in split_trailers(original)[1]
        ),
        *_co_authors([head[b"author"] for head, _ in read]),
        *(f"{key}: {' '.join(value.split())}".encode() for key, value in landing.trailers),
    ]
    paragraphs = (text, b"\n".join(dict.fromkeys(trailers)))
    return make_commit(
        tree=landing.tree,
        parents=(parent, *landing.parents),
        author=headers[b"author"],
        committer=b"%s %d +0000" % (_COMMITTER, committed),
        message=b"\n\n".join(part for part in paragraphs if part) + b"\n",
        encoding=encoding,
    )


def _co_authors(authors: Sequence[bytes]) -> list[bytes]:
    """Return a trailer for each author but the last, who is the author of the commit."""
    people = [author[: author.rindex(b">") + 1] for author in authors]
    return [b"Co-authored-by: " + person for person in people if person != people[-1]]
