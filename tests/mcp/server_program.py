"""weft's tools and loops in one process, as `weft serve` has them: ROOT STORE PORT SLOTS.

PORT is a file into which the port goes once it answers. Works until it is asked to stop.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import uvicorn

from weft import config
from weft.engine import Interrupted, open_site, serving
from weft.mcp.http import McpApp
from weft.operations.project import Project
from weft.store import open_store


class Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the engine's


async def main(root: Path, url: str, port: Path, slots: int) -> None:
    settings = config.load(root, {})
    project = Project(root=root, config=settings, environment=os.environ, store_url=url)
    with open_store(url, tuning=settings.tuning) as store, socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(100)
        app = McpApp(project, store)
        server = Server(uvicorn.Config(app, lifespan="off", log_level="error"))
        number = listening.getsockname()[1]
        mcp = f"http://127.0.0.1:{number}/mcp"
        with open_site(store, root, settings, dict(os.environ), mcp=mcp) as site:
            async with app.running(), anyio.create_task_group() as group:
                group.start_soon(app.answer_at_the_end)
                group.start_soon(server.serve, [listening])
                (port.parent / "beside").write_text(str(number))
                (port.parent / "beside").rename(port)
                try:
                    async with serving(site, slots=slots):
                        await anyio.sleep_forever()
                except Interrupted:
                    pass
                server.should_exit = True
                group.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
