"""A server with the verbs and operations alone: `server_program.py ROOT PORT`.

Prints its port once it listens.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

import uvicorn
from anyio.to_thread import run_sync
from fastapi import FastAPI, Request, Response

from weft.errors import Forbidden, Unauthenticated, WeftError
from weft.operations import project
from weft.store.tokens import identify
from weft.web import verbs
from weft.web.verbs import Calls, Scope


def main(root: str, port: str) -> None:
    found = project.find_here(Path(root), os.environ)
    app = FastAPI()
    app.include_router(verbs.router)
    with found.open_store() as store, socket.socket() as listening:

        async def allow(request: Request, scope: Scope) -> None:
            _, _, text = request.headers.get("authorization", "").partition(" ")
            token = await run_sync(lambda: identify(store, text, now=time.time()))
            if not token.scopes & {scope, "admin"} or token.tenant is not None:
                raise Forbidden(f"This token has not the scope {scope}.")

        app.state.calls = Calls(store=store, place=found, allow=allow)
        app.add_exception_handler(WeftError, _answer)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", int(port)))
        listening.listen(100)
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listening])


def _answer(_: Request, error: Exception) -> Response:
    assert isinstance(error, WeftError)
    answer = verbs.problem(error)
    answer.status_code = 401 if isinstance(error, Unauthenticated) else answer.status_code
    return answer


if __name__ == "__main__":
    main(*sys.argv[1:])
