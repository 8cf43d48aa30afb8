"""One key, one answer: kept with the effect, reserved where that takes longer, forgotten late."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from store_helpers import put, url
from weft.errors import InputError, NotFound, StillAnswering
from weft.store import Store
from weft.store.database import Transaction
from weft.store.store import BoundStore
from weft.store.tasks import get_task
from weft.store.tokens import (
    KEPT,
    RepeatableRequest,
    StoredReply,
    fill_reply,
    find_reply,
    forget_replies,
    keep_reply,
    reserve_reply,
)

__all__ = ["url"]

ASKED = RepeatableRequest(token="t", key="k", request="r")
DONE = StoredReply(status=201, body="{}")


def test_a_key_has_one_answer_for_one_request_of_one_token(store: Store) -> None:
    store.write(lambda tx: keep_reply(tx, ASKED, DONE, now=1))
    assert store.read(lambda tx: find_reply(tx, ASKED, now=2)) == DONE
    assert store.read(lambda tx: find_reply(tx, replace(ASKED, token="u"), now=2)) is None
    with pytest.raises(InputError, match="another request"):
        store.read(lambda tx: find_reply(tx, replace(ASKED, request="x"), now=2))


def test_what_is_being_answered_is_not_done_twice(store: Store) -> None:
    assert reserve_reply(store, ASKED, now=1) is None
    with pytest.raises(StillAnswering):
        reserve_reply(store, ASKED, now=2)
    fill_reply(store, ASKED, None, now=3)
    assert reserve_reply(store, ASKED, now=4) is None
    fill_reply(store, ASKED, DONE, now=5)
    assert reserve_reply(store, ASKED, now=6) == DONE


def test_who_died_while_answering_is_given_up_and_old_answers_are_forgotten(store: Store) -> None:
    assert reserve_reply(store, ASKED, now=1) is None
    assert reserve_reply(store, ASKED, now=1000) is None
    fill_reply(store, ASKED, DONE, now=1001)
    forget_replies(store, now=1000 + KEPT)
    assert reserve_reply(store, ASKED, now=1000 + KEPT) == DONE
    forget_replies(store, now=1002 + KEPT)
    assert reserve_reply(store, ASKED, now=1002 + KEPT) is None


def test_verbs_within_one_transaction_happen_together_or_not_at_all(store: Store) -> None:
    numbers = []

    def work(tx: Transaction) -> None:
        within = BoundStore(store, tx)
        numbers.append(put(within, "a"))
        assert get_task(within, numbers[-1]).name == "a"
        keep_reply(tx, ASKED, DONE, now=1)
        raise KeyError

    with pytest.raises(KeyError):
        store.write(work)
    with pytest.raises(NotFound):
        get_task(store, numbers[-1])
    assert store.read(lambda tx: find_reply(tx, ASKED, now=2)) is None


def test_nothing_is_written_where_everything_is_only_read(store: Store) -> None:
    with pytest.raises(RuntimeError, match="only read"):
        store.read(lambda tx: put(BoundStore(store, tx), "a"))
