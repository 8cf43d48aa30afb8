"""Labels: a task starts only at a worker that has all labels it asks for."""

from __future__ import annotations

import pytest

from store_helpers import DONE, go, hire, put
from store_helpers import url as url
from weft.admission.capacity import attempt_demand
from weft.errors import InputError
from weft.model import AgentFile, Class
from weft.runs.attention import read_attention
from weft.store import Store
from weft.store.admission import admit, admit_task
from weft.store.attempt_end import finish
from weft.store.probe import probe
from weft.store.tasks import get_task
from weft.store.workers import depart, get_worker


def demand(*labels: str, agent: str | None = None) -> dict[str, int]:
    return attempt_demand(run=None, stage=None, agent=agent, provider=None, labels=labels)


def test_a_task_starts_only_at_a_worker_with_all_its_labels(store: Store) -> None:
    hire(store, "plain")
    hire(store, "gpu", labels=("gpu",))
    hire(store, "both", labels=("arm64", "gpu", "big"))
    task = put(store, "t", demand=demand("gpu", "arm64"))
    assert admit(store, "plain", now=1) == []
    assert admit_task(store, "plain", task, now=1) == []
    assert admit(store, "gpu", now=1) == []
    [grant] = admit(store, "both", now=1)
    assert (grant.task, grant.worker) == (task, "both")
    assert not any(name.startswith("label:") for name in grant.demand)
    assert get_worker(store, "both", now=1).labels == ("arm64", "gpu", "big")


def test_a_task_without_its_worker_keeps_no_other_task_back(store: Store) -> None:
    hire(store, slots=100)
    put(store, "first", demand=demand("gpu"), klass=Class.INTERACTIVE)
    for number in range(40):  # more than the bypasses after which capacity is reserved
        put(store, f"t{number}", demand=demand(), klass=Class.BATCH)
        grant = go(store)
        assert grant.name == f"t{number}"
        finish(store, grant.fence, DONE, now=2)


def test_labels_that_no_present_worker_has_need_a_person(store: Store) -> None:
    hire(store, "plain")
    task = put(store, "t", demand=demand("gpu", "arm64"))
    [need] = read_attention(store, now=1).all
    assert need.text == (
        "needs a worker with the labels arm64, gpu, and no present worker has any of them"
    )
    assert need.do == ("weft worker --label arm64,gpu", f"weft skip {task}")
    [wait] = probe(store, task, now=1)
    assert wait.text == "waiting for a worker with the labels arm64, gpu: none is present"
    assert (wait.kind, wait.subject) == ("label", "arm64,gpu")
    hire(store, "near", labels=("gpu",))
    [need] = read_attention(store, now=1).all
    assert "the nearest lacks arm64" in need.text
    hire(store, "both", labels=("gpu", "arm64"))
    assert read_attention(store, now=1).all == ()
    assert probe(store, task, now=1) == []
    depart(store, "both", now=2)
    assert len(read_attention(store, now=2).all) == 1


def test_a_worker_with_the_labels_must_run_the_agent_too(store: Store) -> None:
    hire(store, "gpu", labels=("gpu",), agents=(AgentFile(name="other", source=""),))
    hire(store, "able", agents=(AgentFile(name="x", source=""),))
    put(store, "t", agent="x", demand=demand("gpu", agent="x"))
    assert admit(store, "gpu", now=1) == []
    [need] = read_attention(store, now=1).all
    host = get_worker(store, "gpu", now=1).host
    assert need.text == (
        f"needs a worker with the label gpu that runs x; {host} has the label, but lacks a "
        "program, variable or sandbox of x: its worker logs which; add it there"
    )
    assert not any("--label" in command for command in need.do)


def test_the_labels_of_a_task_are_shown_in_its_demand(store: Store) -> None:
    task = put(store, "t", demand=demand("gpu"))
    assert get_task(store, task).demand["label:gpu"] == 1


@pytest.mark.parametrize("label", ["GPU", "a b", "", "ü", "a,b", "a/b", "x" * 41, "-a", "a\n"])
def test_a_worker_with_an_odd_label_is_refused(store: Store, label: str) -> None:
    with pytest.raises(
        InputError, match="Worker w must state a list of labels in lower-case letters"
    ):
        hire(store, labels=(label,))
