"""Tokens of hosts: a new token replaces the others once the host has kept it."""

from __future__ import annotations

import pytest

from store_helpers import url as url
from weft.errors import InputError, NotFound, Unauthenticated
from weft.model import NewWorker
from weft.store import Store
from weft.store.tokens import (
    confirm_host_token,
    create_join_token,
    create_token,
    find_token,
    identify,
    join_host,
    renew_host_token,
    revoke_token,
)
from weft.store.workers import list_workers, register


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


def test_the_workers_of_a_revoked_host_are_no_longer_present(
    store: Store, joined: tuple[str, str]
) -> None:
    host = find_token(store, joined[0], now=1).worker
    for id, place in (("a", str(host)), ("b", "home")):
        new = NewWorker(id=id, slots=1, host=place, boot="x", labels=("gpu",))
        register(store, new, now=1, stated={})
    revoke_token(store, joined[0], now=2)
    assert [worker.id for worker in list_workers(store, now=2)] == ["b"]


def test_a_token_is_found_by_its_name_or_its_host_if_one_valid_token_has_it(
    store: Store, joined: tuple[str, str]
) -> None:
    first, _ = create_token(store, name="ann", scopes=("read",), now=1)
    assert find_token(store, "ann", now=2).id == first.id
    second, _ = create_token(store, name="ann", scopes=("read",), now=2)
    with pytest.raises(InputError, match=f"{first.id}, {second.id}"):
        find_token(store, "ann", now=3)
    revoke_token(store, second.id, now=3)
    assert find_token(store, "ann", now=4).id == first.id
    revoke_token(store, first.id, now=4)
    assert find_token(store, "ann", now=5).id == second.id, "to say that it was revoked before"
    host = str(find_token(store, joined[0], now=1).worker)
    renewed, _ = renew_host_token(store, joined[0], now=10)
    assert find_token(store, host, now=11).id == renewed.id, "one of several of the same host"
    with pytest.raises(NotFound, match="weft token list"):
        find_token(store, "bob", now=1)


def test_a_host_that_joins_again_keeps_its_name_with_a_token_of_its_own(store: Store) -> None:
    join, _ = create_join_token(store, name="h", uses=9, expires=None, now=0)
    token, text = join_host(store, join.id, "far", now=0)
    wrong = text[:-1] + ("a" if text[-1] != "a" else "b")
    assert join_host(store, join.id, "far", former=wrong, now=1)[0].worker != token.worker
    valid, fresh = join_host(store, join.id, "far", former=text, now=2)
    assert valid.worker == token.worker
    confirm_host_token(store, valid.id, now=3)
    copied = join_host(store, join.id, "thief", former=text, now=1000)[0].worker
    assert str(copied).startswith("thief-"), "the host is at work with a newer token"
    revoke_token(store, valid.id, now=1001)
    again, _ = join_host(store, join.id, "far", former=fresh, now=1002)
    assert again.worker == token.worker
    assert again.id != token.id
