"""Several servers on one PostgreSQL: neither has anything that the other does not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from api_http.server_process import Client, serving
from databases import fresh_database


def test_two_servers_are_as_good_as_one(tmp_path: Path, postgres_server: str) -> None:
    with (
        fresh_database(postgres_server) as database,
        serving(tmp_path / "a", database) as a,
        serving(tmp_path / "b", database) as b,
    ):
        token = a.make_token("admin")
        here, there = a.client(token), b.client(token)
        members = [(side, side.join(f"m{n}")) for n, side in enumerate((here, there) * 3)]
        assert len(there.get("/v1/agents")["agents"]) == len(members)

        with ThreadPoolExecutor(len(members)) as pool:
            waiting = [pool.submit(side.poll, member, 60_000) for side, member in members]
            tasks = [(here, there)[n % 2].send(str(n)) for n in range(len(members))]
            found = [one.result() for one in waiting]
        assert sorted(one["task"]["task"] for one in found) == sorted(tasks), "one was given twice"

        again = {"Idempotency-Key": "once"}
        first, second = (
            side.http.post("/v1/tasks", json={"text": "x"}, headers=again) for side in (here, there)
        )
        assert (first.status_code, first.json()) == (second.status_code, second.json())

        a.kill()
        for one in found:  # whoever gave it, the other hears how it ended
            there.finish(one["task"]["task"], one["task"]["fence"])
        assert {there.state(one) for one in tasks} == {"done"}
        revoked = Client(b, b.make_token("read"))
        assert revoked.http.get("/v1/me").status_code == 200
        number = revoked.get("/v1/me")["token"]["id"]
        there.http.delete(f"/v1/tokens/{number}").raise_for_status()
        assert revoked.http.get("/v1/me").status_code == 401
        revoked.http.close()
