"""What a FastAPI application costs that does nothing: the other side of `api_reads_ratio`."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Response


def main(file: str) -> None:
    answer = Path(file).read_bytes()
    app = FastAPI()

    @app.get("/v1/tasks")
    async def tasks() -> Response:
        return Response(answer, media_type="application/json")

    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(100)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(app, http="h11", log_config=None, access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


main(sys.argv[1])
