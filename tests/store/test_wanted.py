"""The view `weft.wanted`: slots that could start a task now, for autoscalers."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from databases import fresh_database
from store_helpers import DONE, drain, go, hire, put
from weft.model import NewTask
from weft.store import Store, open_store
from weft.store.admission import drain as stop_admissions
from weft.store.attempt_end import finish
from weft.store.limit_table import set_limit, stop_agent
from weft.store.probe import count_wanted
from weft.store.tasks import submit

pytestmark = pytest.mark.each_store


@pytest.fixture
def store(postgres_server: str, postgres_template: str) -> Iterator[Store]:
    with fresh_database(postgres_server, postgres_template) as url, open_store(url) as opened:
        hire(opened, slots=2)
        yield opened


def wanted(store: Store) -> dict[str, int]:
    """Return the wanted slots by repository, as the view has them and `weft ps --json` tells."""
    with psycopg.connect(store.url) as connection:
        rows = connection.execute("SELECT repo, labels, slots FROM weft.wanted").fetchall()
    told = [(each.repo, ",".join(each.labels), each.slots) for each in count_wanted(store, now=1)]
    assert sorted(rows) == told
    return {repo: slots for repo, _, slots in rows}


def test_tasks_that_could_start_are_counted_by_repository(store: Store) -> None:
    assert wanted(store) == {}
    for number in range(3):
        put(store, f"a{number}")
    submit(store, NewTask(name="b"), repo="other", now=0)
    assert sorted(wanted(store).values()) == [1, 3]
    go(store)
    assert sum(wanted(store).values()) == 3


def test_the_slots_of_workers_do_not_bound_the_number(store: Store) -> None:
    for number in range(9):
        put(store, f"t{number}", demand={"worker:@": 1})
    assert len(drain(store)) == 2
    assert sum(wanted(store).values()) == 7


def test_as_many_are_wanted_as_a_limit_has_room_for(store: Store) -> None:
    set_limit(store, "llm", 5, now=0)
    for number in range(9):
        put(store, f"t{number}", demand={"llm": 2})
    assert sum(wanted(store).values()) == 2
    grant = go(store)
    assert sum(wanted(store).values()) == 1
    go(store)
    assert wanted(store) == {}
    finish(store, grant.fence, DONE, now=2)
    assert sum(wanted(store).values()) == 1


def test_tasks_that_share_a_file_want_one_slot(store: Store) -> None:
    for number in range(4):
        put(store, f"t{number}", files=("src/a.py",))
    assert sum(wanted(store).values()) == 1
    go(store)
    assert go_on(store) == 0


def go_on(store: Store) -> int:
    """Let an admission find out what is held; then count."""
    assert drain(store) == []
    return sum(wanted(store).values())


def test_nothing_is_wanted_while_nothing_may_start(store: Store) -> None:
    put(store, "t", agent="implement")
    put(store, "u", agent="review")
    assert sum(wanted(store).values()) == 2
    store.write(lambda tx: stop_agent(tx, "review", "not logged in", now=0))
    assert sum(wanted(store).values()) == 1
    stop_admissions(store, now=0)
    assert wanted(store) == {}


def test_wanted_slots_are_counted_by_labels(store: Store) -> None:
    for number, labels in enumerate([(), ("gpu",), ("gpu",), ("gpu", "arm64")]):
        demand = {"worker:@": 1, **{f"label:{label}": 1 for label in labels}}
        put(store, f"t{number}", demand=demand)
    wanted(store)
    with psycopg.connect(store.url) as connection:
        rows = connection.execute("SELECT labels, slots FROM weft.wanted").fetchall()
    assert dict(rows) == {"": 1, "gpu": 2, "arm64,gpu": 1}
