"""What Prometheus reads."""

from __future__ import annotations

import re

from api_http.server_process import Server
from store_helpers import put

LINE = re.compile(
    r'[a-z_]+(\{[a-z]+="(?:[^"\\\n]|\\.)*"(,[a-z]+="(?:[^"\\\n]|\\.)*")*\})? [0-9.e+-]+'
)


def test_metrics_are_lines_that_prometheus_can_read(server: Server) -> None:
    admin = server.client()
    client = server.apart()
    agent = client.join('a "quoted" agent')
    task = client.send()
    client.take(agent)
    client.get(f"/v1/tasks/{task}")
    with server.open_store() as store:
        put(store, demand={"label:gpu": 1})
    answer = admin.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    values = [one for one in lines if not one.startswith("#")]
    assert all(LINE.fullmatch(one) for one in values), values
    assert len(values) == len({one.rpartition(" ")[0] for one in values})
    for name in (
        'weft_tasks{state="running"}',
        'weft_leases{kind="attempt",state="held"}',
        'weft_limit_capacity{resource="llm"} 12',
        f'weft_limit_used{{resource="worker:{agent}"}} 1',
        'weft_workers{kind="api",status="busy"}',
        'weft_http_requests_total{method="POST",route="/v1/tasks",status="201"}',
        "weft_queue_length",
        'weft_wanted_slots{repo="r",labels="gpu"} 1',
        "weft_followers",
    ):
        assert any(one.startswith(name) for one in values), name
    assert not any(f"/v1/tasks/{task}" in one for one in values), "a series for each task"


def test_metrics_need_a_token(server: Server) -> None:
    assert server.client("").refused(401, "GET", "/metrics") == "unauthenticated"
