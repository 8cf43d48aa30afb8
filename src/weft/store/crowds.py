"""Crowds: when many ready tasks run into one held pattern, the rest of them step aside at once.

A head that runs into a claim steps aside by itself (`ready.step_aside`). A claim that holds a
whole directory, or a glob, is met by thousands: after the first few of a bucket, all the others
are read together, matched here, and set aside in one statement. Who is overlooked is merely
walked, so only what is certain is set aside: nobody who could start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from weft.paths import conflicts, lead
from weft.store import records
from weft.store.database import Row, Transaction, encode, encode_keys

_FEW: Final = 8
"""So many are cheaper to walk than a bucket is to read."""


class Crowds:
    """Who ran into what so far, in one look at the ready tasks."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._met: Counter[tuple[int, str, str | None]] = Counter()

    def meet(self, row: Row, held: Mapping[str, int]) -> None:
        """A head ran into held patterns; whoever else is in for the same steps aside with it."""
        bucket, line = row["bucket"], row["line"]
        for pattern, holder in held.items():
            if self._are_many(bucket, pattern, None):
                self._sweep_heads(bucket, pattern, holder)
            if line is None or conflicts(line, pattern):
                continue  # whoever follows it waits for the same
            if self._are_many(bucket, pattern, line):
                self._sweep_line(bucket, line, pattern, holder)

    def _are_many(self, bucket: int, pattern: str, line: str | None) -> bool:
        """At 8, 16, 32, … of them: what a sweep cannot move is not read again at each step."""
        self._met[bucket, pattern, line] += 1
        met = self._met[bucket, pattern, line]
        return met >= _FEW and met & (met - 1) == 0

    def _sweep_heads(self, bucket: int, pattern: str, holder: int) -> None:
        rows = self._tx.all("heads_wanting", bucket=bucket, start=_start(pattern), holder=holder)
        wanting = [row for row in rows if _wants(row, pattern)]
        stay = {row["id"] for row in wanting if row["line"] and conflicts(row["line"], pattern)}
        self._tx.run("set_aside_all", ids=_keys(stay), holder=holder)
        self._leave([row for row in wanting if row["id"] not in stay], bucket, pattern, holder)

    def _sweep_line(self, bucket: int, line: str, pattern: str, holder: int) -> None:
        """Those behind a head that left its line for what it ran into would do so one by one."""
        rows = self._tx.all(
            "followers_wanting", bucket=bucket, line=line, start=_start(pattern), holder=holder
        )
        self._leave([row for row in rows if _wants(row, pattern)], bucket, pattern, holder)

    def _leave(self, rows: Sequence[Row], bucket: int, pattern: str, holder: int) -> None:
        """What their lines wait for is not in their way: behind them somebody might start.

        They join the line for the pattern if that is what they want, or else stand alone.
        """
        join = {row["id"] for row in rows if pattern in records.files(row["files"])}
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
    """How a file within the pattern begins among a task's files, which are keys in JSON."""
    return encode(lead(pattern)).removesuffix('"')


def _wants(row: Row, pattern: str) -> bool:
    return any(conflicts(own, pattern) for own in records.files(row["files"]))


def _keys(ids: Iterable[int]) -> str:
    return encode_keys(str(one) for one in ids)
