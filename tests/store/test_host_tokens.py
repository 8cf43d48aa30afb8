"""Tokens of hosts: a new token replaces the others once the host has kept it."""

from __future__ import annotations

import pytest

from store_helpers import url as url
from weft.errors import Unauthenticated
from weft.store import Store
from weft.store.tokens import (
    confirm_host_token,
    create_join_token,
    identify,
    join_host,
    renew_host_token,
    revoke_token,
)


@pytest.fixture
def joined(store: Store) -> tuple[str, str]:
    """The id and the text of the token of a host."""
    join, _ = create_join_token(store, name="h", uses=2, expires=None, now=0)
    token, text = join_host(store, join.id, "far", now=0)
    return token.id, text


def is_valid(store: Store, text: str, now: float) -> bool:
    try:
        return bool(identify(store, text, now=now))
    except Unauthenticated:
        return False


def test_a_token_whose_successor_was_lost_on_the_way_stays_valid(
    store: Store, joined: tuple[str, str]
) -> None:
    id, text = joined
    renew_host_token(store, id, now=10)
    assert is_valid(store, text, 10_000)


def test_a_confirmed_token_ends_the_others_of_its_host_a_little_later(
    store: Store, joined: tuple[str, str]
) -> None:
    id, text = joined
    _, lost = renew_host_token(store, id, now=10)
    kept, fresh = renew_host_token(store, id, now=20)
    join, _ = create_join_token(store, name="h", uses=1, expires=None, now=0)
    _, foreign = join_host(store, join.id, "other", now=0)
    confirm_host_token(store, kept.id, now=30)
    assert is_valid(store, text, 329), "requests are under way with it"
    assert [is_valid(store, each, 331) for each in (text, lost, fresh, foreign)] == [
        False,
        False,
        True,
        True,
    ]
    confirm_host_token(store, kept.id, now=5000)
    assert not is_valid(store, text, 5001), "a repetition lengthens no life"


def test_revoking_a_token_of_a_host_ends_all_its_tokens(
    store: Store, joined: tuple[str, str]
) -> None:
    id, text = joined
    _, fresh = renew_host_token(store, id, now=10)
    assert revoke_token(store, id, now=20)
    assert not is_valid(store, text, 21)
    assert not is_valid(store, fresh, 21)
