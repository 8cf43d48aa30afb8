"""Tokens: made, shown, expired, revoked, bound to an attempt; and never kept as they are."""

from __future__ import annotations

import re
from typing import Any

import pytest

from databases import look
from store_helpers import DONE, go, hire, put, url
from weft.errors import InputError, NotFound, Unauthenticated
from weft.store import Store
from weft.store.attempt_end import finish
from weft.store.leases import adopt, suspect_overdue
from weft.store.tokens import create_token, identify, list_tokens, page_tokens, revoke_token
from weft.store.workers import depart

pytestmark = pytest.mark.each_store

__all__ = ["url"]


def test_a_token_says_whose_it_is_and_what_it_may(store: Store) -> None:
    made, text = create_token(store, name="ann", scopes=("work", "read"), tenant="t", now=1)
    assert re.fullmatch(r"weft_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", text)
    owner = identify(store, text, now=2)
    assert owner == made
    assert (owner.name, owner.tenant) == ("ann", "t")
    assert owner.scopes == {"read", "work"}
    assert list_tokens(store) == [made]


def test_the_store_keeps_no_secret(store: Store, url: str) -> None:
    _, text = create_token(store, name="ann", scopes=("read",), now=1)
    secret = text.split("_", 2)[2]
    [row] = look(url, "SELECT * FROM tokens")
    events = look(url, "SELECT * FROM events")
    assert secret not in repr(row)
    assert secret not in repr(events)


def test_a_token_that_is_wrong_in_any_way_is_refused_with_the_same_words(store: Store) -> None:
    _, text = create_token(store, name="ann", scopes=("read",), expires=10, now=1)
    revoked, gone = create_token(store, name="bob", scopes=("read",), now=1)
    assert revoke_token(store, revoked.id, now=2)
    assert not revoke_token(store, revoked.id, now=3)
    forged = text[:-1] + ("A" if text[-1] != "A" else "B")
    nobody = "weft_" + "0" * 12 + text[17:]
    swapped = "weft_" + gone.split("_")[1] + text[17:]
    messages = set()
    for wrong in ("", "weft", forged, nobody, swapped, gone, text + "x", text.upper(), "é" * 61):
        with pytest.raises(Unauthenticated) as refused:
            identify(store, wrong, now=3)
        messages.add(str(refused.value))
    with pytest.raises(Unauthenticated) as refused:
        identify(store, text, now=10)
    assert messages == {str(refused.value)}
    assert identify(store, text, now=9.9).name == "ann"


def test_a_tasks_token_ends_with_its_attempt(store: Store) -> None:
    hire(store, "w")
    put(store, "a")
    grant = go(store, "w")
    _, text = create_token(store, name="attempt", scopes=("work",), fence=grant.fence, now=1)
    owner = identify(store, text, now=2)
    assert (owner.fence, owner.task) == (grant.fence, grant.task)
    assert list_tokens(store) == []
    finish(store, grant.fence, DONE, now=3)
    with pytest.raises(Unauthenticated):
        identify(store, text, now=4)


def test_a_tasks_token_goes_on_when_its_attempt_is_adopted(store: Store) -> None:
    hire(store, "w")
    hire(store, "v")
    put(store, "a")
    grant = go(store, "w")
    _, text = create_token(store, name="attempt", scopes=("work",), fence=grant.fence, now=1)
    depart(store, "w", now=2)
    suspect_overdue(store, now=2)
    fresh = adopt(store, grant.fence, "v", now=3)
    assert identify(store, text, now=4).fence == fresh != grant.fence


def test_what_no_token_can_be_is_refused(store: Store) -> None:
    cases: list[dict[str, Any]] = [
        {"name": " ", "scopes": ("read",)},
        {"name": "a\n", "scopes": ("read",)},
        {"name": "a", "scopes": ()},
        {"name": "a", "scopes": ("root",)},
        {"name": "a", "scopes": ("read",), "expires": 1.0},
    ]
    for wrong in cases:
        with pytest.raises(InputError):
            create_token(store, **wrong, now=1)
    with pytest.raises(NotFound):
        revoke_token(store, "nobody", now=1)


def test_tokens_come_in_pages_oldest_first(store: Store) -> None:
    made = [create_token(store, name=str(n), scopes=("read",), now=n // 2)[0] for n in range(5)]
    listed: list[Any] = []
    after: str | None = None
    for size in (2, 2, 1):
        page, after = page_tokens(store, after=after, most=2)
        assert len(page) == size
        listed += page
    assert after is None
    assert listed == list_tokens(store)
    assert {token.id for token in listed} == {token.id for token in made}
    with pytest.raises(NotFound):
        page_tokens(store, after="nobody", most=2)
