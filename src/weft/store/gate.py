"""The gate's verbs. All carry the fence of the lease `gate:<run>`.

A landing is recorded before trunk moves, never two at a time, and only ever rolls forward; so the
next holder of the gate can complete it.

No agent of an *untested* run starts. A run is untested from its submission over the network, or
from the moment its base is in doubt: tasks fail their checks for a cause that is not theirs, or a
workspace cannot be set up. Its gate checks the base: a pass lets agents start; a failure blocks the
gate for a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from weft import stages
from weft.candidate_records import CheckVerdict, GateRows, Landing, MergeConflict
from weft.errors import NotFound, Refused
from weft.model import TERMINAL, Demand, ObjectId, State
from weft.store import ready, row_records
from weft.store.claims import family, give_up
from weft.store.database import Row, Transaction, encode, encode_keys
from weft.store.entries import back_to_its_maker, open_review, set_stage
from weft.store.leases import release
from weft.store.ledger import require_holder
from weft.store.row_records import get_run_row, get_task_row
from weft.store.store import reads, writes
from weft.store.team_rows import TESTS, is_contending, task_of_entry
from weft.store.teams import decide, fail_entrant, record_green
from weft.teams.choice import CandidateResult

NO_RUN: Final = ""
"""The run of verdicts on a base that were made before its run was submitted."""

_LATELY: Final = 300
"""Number of settled entries that predict the next failure; older entries hardly count."""


@reads
def list_check_spans(tx: Transaction, run: str) -> list[tuple[float, float]]:
    """List the starts and ends of the checks of a run that gave a verdict."""
    rows = tx.all("check_spans", run=run)
    return [(float(row["at"]) - float(row["seconds"]), float(row["at"])) for row in rows]


@reads
def list_check_seconds(tx: Transaction, repo: str, *, most: int = 50) -> list[float]:
    """List the seconds of the latest checks in a repository, the newest first."""
    return [float(row["seconds"]) for row in tx.all("check_seconds", repo=repo, most=most)]


@reads
def read_gate(tx: Transaction, run: str) -> GateRows:
    """Read all rows of a run's gate."""
    return _rows(
        tx,
        run,
        tx.all("entries", run=run),
        tx.all("verdicts", run=run),
        tx.all("conflicts", run=run),
        tx.all("landings", run=run),
    )


@reads
def read_open(tx: Transaction, run: str) -> GateRows:
    """Read the open entries of a run's gate, and the rows since the oldest of them came."""
    waiting = tx.all("entries_waiting", run=run)
    last = tx.value("last_landing", run=run)
    oldest = tx.value("oldest_landing_seen", run=run)
    landings = tx.all("landings_from", run=run, sequence=last if oldest is None else oldest)
    bases = encode_keys(
        {landing[end] for landing in landings for end in ("old", "new")} | _bases(waiting)
    )
    verdicts = tx.all("verdicts_on", run=run, bases=bases)
    named = {
        *(entry for landing in landings for entry in row_records.landing(landing).entries),
        *(entry for verdict in verdicts for entry in row_records.verdict(verdict).combination),
        *(entry["id"] for entry in waiting),
    }
    return _rows(
        tx,
        run,
        tx.all("entries_named", names=encode_keys(named)),
        verdicts,
        tx.all("conflicts_on", run=run, bases=bases),
        landings,
    )


def _bases(entries: Iterable[Row]) -> set[str]:
    return {entry["base"] for entry in entries if entry["base"] is not None}


def _rows(
    tx: Transaction,
    run: str,
    entries: Sequence[Row],
    verdicts: Sequence[Row],
    conflicts: Sequence[Row],
    landings: Sequence[Row],
) -> GateRows:
    row = get_run_row(tx, run)
    settled = tx.all("entries_settled", run=run, most=_LATELY)
    return GateRows(
        entries=tuple(row_records.entry(row) for row in entries),
        verdicts=tuple(row_records.verdict(row) for row in verdicts),
        conflicts=tuple(row_records.conflict(row) for row in conflicts),
        landings=tuple(row_records.landing(row) for row in landings),
        rejected=tuple(row["state"] == "rejected" for row in reversed(settled)),
        revision=row["revision"],
        blocked=row["blocked"],
        ended=row["state"] == "ended",
        untested=bool(row["untested"]),
    )


@reads
def get_output(tx: Transaction, run: str, number: int) -> str:
    """Return the end of the output of a recorded check."""
    row = tx.one("verdict_output", run=run, number=number)
    if row is None:
        raise NotFound(f"Run {run} has no verdict {number}.")
    return str(row["output"])


@reads
def find_pass(tx: Transaction, tree: str, check_id: str) -> str | None:
    """Return the output of a check that passed on this tree, in any run.

    Failures are not looked up: their cause may have been repaired since.
    """
    row = tx.one("known_pass", tree=tree, check_id=check_id)
    return None if row is None else str(row["output"])


@reads
def find_landed(tx: Transaction, run: str) -> ObjectId | None:
    """Return the commit to which the latest completed landing of a run moved trunk."""
    row = tx.one("landed_tip", run=run)
    return None if row is None else str(row["new"])


@writes
def see_entries(tx: Transaction, fence: int, run: str, tip: str) -> None:
    """Record the tip of trunk that new entries came to."""
    require_holder(tx, fence, run)
    tx.run("set_entry_base", run=run, base=tip)


@writes
def record_verdict(
    tx: Transaction, fence: int, run: str, verdict: CheckVerdict, output: str, *, now: float
) -> None:
    require_holder(tx, fence, run)
    _record_verdict(tx, run, verdict, output, now=now)
    if verdict.purpose == TESTS:
        task = get_task_row(tx, task_of_entry(verdict.combination[0]))
        decide(tx, task["story"], now=now)


@writes
def record_branch_verdict(
    tx: Transaction, fence: int, run: str, verdict: CheckVerdict, output: str, *, now: float
) -> None:
    """Record the verdict on a run merged onto a branch, under the fence of the check itself."""
    require_holder(tx, fence, run, kind="check")
    _record_verdict(tx, run, verdict, output, now=now)


def _record_verdict(
    tx: Transaction, run: str, verdict: CheckVerdict, output: str, *, now: float
) -> None:
    tree, check_id, passed = verdict.tree, verdict.check_id, verdict.passed
    same = {"run": run, "tree": tree, "check_id": check_id, "passed": passed}
    flaked = bool(tree) and tx.one("other_verdict", **same) is not None
    _add_verdict(tx, run, verdict, output, now=now)
    tx.event(
        "checked",
        now=now,
        run=run,
        entries=verdict.combination,
        tree=tree,
        passed=passed,
        seconds=verdict.seconds,
        check_id=check_id,
        commands=verdict.commands,
        purpose=verdict.purpose,
        flaked=flaked,
        host=verdict.host,
    )


@writes
def record_base_pass(
    tx: Transaction, fence: int, verdict: CheckVerdict, output: str, *, now: float
) -> None:
    """Record that a base passed before a run exists; `find_pass` returns it for every run."""
    require_holder(tx, fence, NO_RUN, kind="check")
    _add_verdict(tx, NO_RUN, verdict, output, now=now)


def _add_verdict(
    tx: Transaction, run: str, verdict: CheckVerdict, output: str, *, now: float
) -> None:
    commands, entries = encode(verdict.commands), encode(verdict.combination)
    kept = {"commands": commands, "combination": entries, "output": tx.redact(output)}
    tx.run("add_verdict", verdict, run=run, **kept, at=now)


@writes
def record_conflict(
    tx: Transaction, fence: int, run: str, conflict: MergeConflict, *, now: float
) -> None:
    require_holder(tx, fence, run)
    rivals, report = encode(conflict.after), tx.redact(conflict.report)
    tx.run("add_conflict", conflict, run=run, others=rivals, report=report, at=now)


@writes
def reject(
    tx: Transaction,
    fence: int,
    run: str,
    combination: Sequence[str],
    kind: str,
    reason: str,
    *,
    now: float,
) -> None:
    """Send the tasks of an entry back to be made again; block them after repeated rejections.

    The entry is the last of a combination, the smallest that is known to fail with it.
    """
    require_holder(tx, fence, run)
    *rest, entry = combination
    row = _entry(tx, run, entry)
    if row["state"] != "queued":
        return  # repeated call
    tx.run("set_entry_state", id=entry, state="rejected")
    tx.event("entry_rejected", now=now, run=run, entry=entry, others=rest, why=kind, reason=reason)
    for number in row_records.entry(row).tasks:
        task = get_task_row(tx, number)
        if is_contending(tx, task):
            fail_entrant(tx, task, _result_of(tx, run, entry, kind), reason, now=now)
        else:
            send_back(tx, task, kind, reason, now=now)


def _result_of(tx: Transaction, run: str, entry: str, kind: str) -> CandidateResult:
    """Return the evidence against a rejected candidate of an entrant, by its last failed check."""
    if kind == "conflict":
        return CandidateResult.CONFLICT
    verdicts = [row_records.verdict(row) for row in tx.all("verdicts", run=run)]
    failed = [v for v in verdicts if not v.passed and v.combination == (entry,)]
    settings = tx.one("current_settings", run=run)
    command = None if settings is None else row_records.run_settings(settings).gate.run
    ran = failed[-1].commands if failed else ()
    return CandidateResult.GATE_RED if not ran or ran[-1] == command else CandidateResult.TASK_RED


@writes
def accept_entrant(
    tx: Transaction,
    fence: int,
    run: str,
    entry: str,
    *,
    tree: str,
    lines: int,
    tests: Sequence[str],
    now: float,
) -> None:
    """Record that the candidate of an entrant passed its checks.

    `tree` is the tree of the candidate, `lines` the size of its diff; `tests` are the test files
    that it added.
    """
    require_holder(tx, fence, run)
    row = _entry(tx, run, entry)
    if row["state"] != "queued":
        return  # repeated call
    tx.run("set_entry_state", id=entry, state="passed_on")
    [number] = row_records.entry(row).tasks
    task = get_task_row(tx, number)
    if is_contending(tx, task):
        record_green(tx, task, row, tree, lines, tests, now=now)


def send_back(tx: Transaction, task: Row, kind: str, reason: str, *, now: float) -> None:
    """Send a task at the gate back to be made again; block it after repeated rejections."""
    if task["state"] != State.GATING:
        return
    tx.run(
        "record_failure",
        task=task["id"],
        attempt=task["attempt"],
        kind=kind,
        signature=kind,
        at=now,
    )
    back_to_its_maker(tx, task)
    alike = tx.value("failures_alike", task=task["id"], kind=kind, signature=kind)
    give_up(tx, task)
    if alike >= tx.tuning.pattern:
        why = f"the gate sent it back {alike} times: {reason}"
        ready.leave(tx, task, State.BLOCKED, now=now, reason=why)
        ready.unsettle_dependents(tx, task["id"], now=now)
        tx.event("task_blocked", task, now=now, reason=why)
    else:
        ready.send_back(tx, task, now=now, reason=reason)


@writes
def pass_on(tx: Transaction, fence: int, run: str, entry: str, *, now: float) -> None:
    """Send an entry that passed its checks to a stage that judges it, or show it to a person."""
    require_holder(tx, fence, run)
    row = _entry(tx, run, entry)
    if row["state"] != "queued":
        return  # repeated call
    tx.run("set_entry_state", id=entry, state="passed_on")
    entry_record = row_records.entry(row)
    if entry_record.story is None:
        [number] = entry_record.tasks
        task = get_task_row(tx, number)
        following = stages.after(row_records.request(task).stages, task["stage"])
    else:  # its subtasks are reviewed as a whole, and wait where they are
        task = get_task_row(tx, entry_record.story)
        following = next(iter(row_records.request(task).stages), None)
    if State(task["state"]) in TERMINAL:
        return
    if following is None:
        open_review(tx, row, task, now=now)
        return
    set_stage(tx, task["id"], following)
    ready.requeue(tx, task["id"], now=now)
    tx.event("task_passed_on", now=now, run=run, task=task["id"], stage=following.name)


@writes
def intend(
    tx: Transaction,
    fence: int,
    run: str,
    *,
    old: str,
    new: str,
    tree: str,
    entries: Sequence[str],
    commits: Sequence[str],
    revision: int,
    every_commit: bool,
    now: float,
) -> Landing:
    """Record that trunk is about to move. From now on these entries cannot be stopped.

    Raise `Refused` if the landing was checked under settings that are no longer in force.
    """
    require_holder(tx, fence, run)
    row = tx.one("run", id=run)
    if row is None or row["revision"] != revision:
        raise Refused(f"The settings of run {run} were changed since this was checked.")
    if tx.one("open_landing", run=run) is not None:
        raise Refused(f"Run {run} has a landing that is not completed.")
    for entry in entries:
        row = _entry(tx, run, entry)
        if row["state"] != "queued":
            raise Refused(f"Entry {entry} is {row['state']} and cannot land.")
        tx.run("set_entry_state", id=entry, state="landing")
    tx.run(
        "add_landing",
        run=run,
        old=old,
        new=new,
        tree=tree,
        entries=encode(list(entries)),
        commits=encode(list(commits)),
        revision=revision,
        every_commit=every_commit,
        at=now,
    )
    tx.event("landing_intended", now=now, run=run, old=old, new=new, entries=list(entries))
    landing = tx.one("open_landing", run=run)
    assert landing is not None
    return row_records.landing(landing)


@writes
def complete(tx: Transaction, fence: int, run: str, sequence: int, *, now: float) -> None:
    """Record that trunk has moved: the entries have landed and their tasks are done.

    The same call again has no effect.
    """
    require_holder(tx, fence, run)
    row = tx.one("open_landing", run=run)
    if row is None or row["sequence"] != sequence:
        return
    landing = row_records.landing(row)
    tx.run("end_landing", run=run, sequence=sequence)
    for entry, commit in zip(landing.entries, landing.commits, strict=True):
        tx.run("set_entry_state", id=entry, state="landed")
        about = row_records.entry(_entry(tx, run, entry))
        for number in about.tasks:
            _done(tx, get_task_row(tx, number), commit, now=now)
        if about.story is not None and not _has_more(tx, about.story):
            _done(tx, get_task_row(tx, about.story), commit, now=now)
    ready.wake_sleepers(tx, "trunk_moved", run, now=now)
    tx.event(
        "landed", now=now, run=run, old=landing.old, new=landing.new, entries=list(landing.entries)
    )
    tx.wake()


def _has_more(tx: Transaction, story: int) -> bool:
    """Tell whether a story has subtasks that have not ended."""
    return any(r["id"] != story and r["state"] not in TERMINAL for r in family(tx, story))


def _done(tx: Transaction, task: Row, commit: str, *, now: float) -> None:
    if task["state"] == State.DONE:
        return
    ready.leave(tx, task, State.DONE, now=now)
    give_up(tx, task)
    tx.event("task_landed", task, now=now, commit=commit)
    ready.settle_dependents(tx, task["id"], now=now)


@writes
def block_gate(tx: Transaction, fence: int, run: str, reason: str, *, now: float) -> None:
    """Block the gate of a run until a person has unblocked it."""
    require_holder(tx, fence, run)
    tx.run("block_run", run=run, reason=tx.redact(reason))
    tx.event("gate_blocked", now=now, run=run, reason=reason)


@writes
def unblock_gate(tx: Transaction, run: str, *, now: float) -> bool:
    """Unblock the gate of a run; return False if it was not blocked."""
    if not get_run_row(tx, run)["blocked"]:
        return False
    tx.run("block_run", run=run, reason="")
    tx.event("gate_unblocked", now=now, run=run)
    tx.wake()
    return True


def _entry(tx: Transaction, run: str, entry: str) -> Row:
    row = tx.one("entry", id=entry, run=run)
    if row is None:
        raise NotFound(f"Run {run} has no entry {entry}.")
    return row


DOUBTED = "base_doubted"
"""The kind of event that records a doubt."""

_RED = "red"  # the kind of failure of a task whose check failed
_NOT_SET_UP = "its workspace could not be set up"  # the end of an attempt that raised a doubt


@writes
def doubt_base(tx: Transaction, fence: int, run: str, reason: str, *, now: float) -> None:
    """Let no agent of a run start before its base has passed a check."""
    require_holder(tx, fence, run)
    tx.run("set_untested", run=run, untested=True)
    tx.event(DOUBTED, now=now, run=run, reason=reason)


@writes
def doubt_set_up(tx: Transaction, fence: int, reason: str, *, now: float, spent: Demand) -> bool:
    """Hand back an attempt whose workspace could not be set up, and doubt the base of its run.

    Return False, without a change, if the attempt before raised the same doubt: the base has passed
    since then, so the task is to blame.
    """
    lease = tx.one("lease", fence=fence)
    task = None if lease is None else tx.one("task", id=lease["task"])
    if lease is None or task is None or task["run"] is None:
        return False
    ended = {row["number"]: row["outcome"] for row in tx.all("attempts_of", task=task["id"])}
    if ended.get(lease["attempt"] - 1) == _NOT_SET_UP:
        return False
    if release(tx, fence, now=now, reason=_NOT_SET_UP, spent=spent):
        tx.run("set_untested", run=task["run"], untested=True)
        tx.event(DOUBTED, task, now=now, reason=reason)
        tx.wake()
    return True


@writes
def accept_base(tx: Transaction, fence: int, run: str) -> None:
    """Let the agents of a run start: its base passed."""
    require_holder(tx, fence, run)
    tx.run("set_untested", run=run, untested=False)
    tx.wake()


@writes
def refuse_base(tx: Transaction, fence: int, run: str, reason: str, *, now: float) -> None:
    """Block the gate of a run whose base failed its check.

    Tasks that the gate sent back since a check last passed are not charged for that.
    """
    since = tx.value("last_passed", run=run)
    tx.run("forgive_failures", run=run, kind=_RED, since=since or 0.0)
    block_gate(tx, fence, run, reason, now=now)


@writes
def skip_base_check(tx: Transaction, run: str) -> None:
    """Let the agents of a run start without a check of its base."""
    get_run_row(tx, run)
    tx.run("set_untested", run=run, untested=False)
    tx.wake()
