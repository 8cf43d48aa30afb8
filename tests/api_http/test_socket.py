from __future__ import annotations

import asyncio
import socket

from weft.api.http.socket import bind


def test_answers_are_sent_at_once() -> None:
    """Else the parts of an answer wait for each other, on every connection that is kept."""
    sockets = []

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            found = transport.get_extra_info("socket")
            sockets.append(found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    async def connect() -> None:
        server = await asyncio.get_running_loop().create_server(Accepted, sock=bind("127.0.0.1", 0))
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            await reader.read()
            writer.close()

    asyncio.run(connect())
    assert sockets == [1]
