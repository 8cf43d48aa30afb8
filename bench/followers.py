"""Many followers of one run's events, in one process; prints the median lag of what they get.

followers.py PORT COUNT RUN    the token is in WEFT_TOKEN; a line on standard input ends it
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import sys
import time

_AT = re.compile(rb'"at": ([0-9.]+)')


async def main(port: int, count: int, run: str) -> None:
    lags: list[float] = []
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    asked = (
        f"GET /v1/events?run={run} HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {os.environ['WEFT_TOKEN']}\r\n\r\n"
    )
    for _, writer in connections:
        writer.write(asked.encode())
    for reader, _ in connections:
        await reader.readuntil(b": still here\n\n")
    following = [asyncio.create_task(follow(reader, lags)) for reader, _ in connections]
    await asyncio.sleep(1)
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    for task in following:
        task.cancel()
    print(statistics.median(lags))


async def follow(reader: asyncio.StreamReader, lags: list[float]) -> None:
    while data := await reader.read(1 << 16):
        now = time.time()
        lags += [now - float(at) for at in _AT.findall(data)]


asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
