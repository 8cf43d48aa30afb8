"""Bulk moves in the ready index: when many ready tasks conflict with a held pattern, the rest are
set aside together.

A head that conflicts with a claim is set aside alone (`ready.set_aside`). A claim on a whole
directory, or a glob, conflicts with thousands of tasks: after the first few of a bucket, the rest
is read at once, matched here, and set aside by a single statement. A task that is overlooked is
merely examined later, so only certain conflicts count: no task that could start is set aside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from weft.paths import conflicts, lead
from weft.store import row_records
from weft.store.claims import Claims
from weft.store.database import Row, Transaction, encode, encode_keys

_FEW: Final = 8
"""So many tasks are cheaper to examine than a bucket is to read."""


class Crowds:
    """Conflicts counted by bucket, pattern and line, in a single pass over the ready tasks."""

    def __init__(self, tx: Transaction, claims: Claims) -> None:
        self._tx = tx
        self._claims = claims
        self._met: Counter[tuple[int, str, str | None]] = Counter()

    def meet(self, row: Row, held: Mapping[str, int], *, passable: bool) -> None:
        """Count a head that conflicts with held patterns; set all such heads aside once they are
        many."""
        bucket, line = row["bucket"], row["line"]
        for pattern, holder in held.items():
            if self._are_many(bucket, pattern, None):
                self._sweep_heads(row, pattern, holder)
            if line is None or not passable or conflicts(line, pattern):
                continue  # its followers wait for the same pattern
            if self._are_many(bucket, pattern, line):
                self._sweep_line(bucket, line, pattern, holder)

    def meet_in_plan(self, row: Row, ahead: Mapping[str, int]) -> None:
        """Count a head that shares files with an earlier ready task of its plan, likewise."""
        for pattern, earlier in ahead.items():
            if self._are_many(row["bucket"], pattern, None):
                rows = self._wanting(row["bucket"], pattern, earlier, after=earlier)
                ids = _keys(head["id"] for head in rows)
                self._tx.run("set_aside_all", ids=ids, holder=earlier)

    def _are_many(self, bucket: int, pattern: str, line: str | None) -> bool:
        """Count; return True at 8, 16, 32, … so that tasks no sweep can move are not read each
        time."""
        self._met[bucket, pattern, line] += 1
        met = self._met[bucket, pattern, line]
        return met >= _FEW and met & (met - 1) == 0

    def _sweep_heads(self, head: Row, pattern: str, holder: int) -> None:
        bucket = head["bucket"]
        wanting = self._wanting(bucket, pattern, holder, after=0)
        stay = {
            row["id"]
            for row in wanting
            if (row["line"] and conflicts(row["line"], pattern)) or self._hides_rightly(head, row)
        }
        self._tx.run("set_aside_all", ids=_keys(stay), holder=holder)
        self._leave([row for row in wanting if row["id"] not in stay], bucket, pattern, holder)

    def _wanting(self, bucket: int, pattern: str, holder: int, *, after: int) -> list[Row]:
        rows = self._tx.all(
            "heads_wanting", bucket=bucket, start=_start(pattern), holder=holder, after=after
        )
        return [row for row in rows if _wants(row, pattern)]

    def _hides_rightly(self, head: Row, row: Row) -> bool:
        """Tell whether the tasks behind a head of the same bucket must wait for it by plan
        order."""
        if head["run"] is None or head["gang"] is not None:
            return False
        if not self._claims.any_stalled(head["repo"]):
            return True
        own = {row["id"], head["story"]} - {None}
        held = self._claims.held(head["repo"], row_records.files(row["files"]), own=own)
        return self._claims.stalled.isdisjoint(held.values())

    def _sweep_line(self, bucket: int, line: str, pattern: str, holder: int) -> None:
        """Move the followers of a line whose head has left it: each would leave it in turn."""
        rows = self._tx.all(
            "followers_wanting", bucket=bucket, line=line, start=_start(pattern), holder=holder
        )
        self._leave([row for row in rows if _wants(row, pattern)], bucket, pattern, holder)

    def _leave(self, rows: Sequence[Row], bucket: int, pattern: str, holder: int) -> None:
        """Take tasks out of lines whose file does not exclude them, since followers might start.

        They join the line of the pattern if they want that pattern itself, or else stand alone.
        """
        join = {row["id"] for row in rows if pattern in row_records.files(row["files"])}
        alone = [row["id"] for row in rows if row["id"] not in join]
        self._tx.run("move_lines", ids=_keys(join), line=pattern)
        self._tx.run("leave_lines", ids=_keys(alone), holder=holder)
        emptied = {row["line"] for row in rows if row["followed"]}
        promote = [{"bucket": bucket, "line": line, "aside": None} for line in sorted(emptied)]
        if join:
            self._tx.run("demote_head", bucket=bucket, line=pattern)
            promote.append({"bucket": bucket, "line": pattern, "aside": holder})
        self._tx.many("promote_best", promote)


def _start(pattern: str) -> str:
    """Return the text with which a file within the pattern begins among the JSON keys of
    `files`."""
    return encode(lead(pattern)).removesuffix('"')


def _wants(row: Row, pattern: str) -> bool:
    return any(conflicts(own, pattern) for own in row_records.files(row["files"]))


def _keys(ids: Iterable[int]) -> str:
    return encode_keys(str(number) for number in ids)
