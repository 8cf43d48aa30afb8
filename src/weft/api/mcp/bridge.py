"""A bridge from standard input to a server's /mcp, for clients that start their MCP servers.

Each message is a POST, each answer a line. The server keeps no sessions, so the bridge keeps only
the requests under way. It does not need the SDK, which takes a second to import.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit

from weft.store.server_client import response_until

_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PATIENCE: Final = 120.0  # seconds for a whole answer; a poll waits for up to 60
_LARGEST: Final = 64 << 20  # bytes of an answer
_UNREACHABLE: Final = -32000
_PARSE_ERROR: Final = -32700

Message = dict[str, Any]


def serve_bridge(server: str, token: str) -> None:
    """Pass messages on until standard input ends and all are answered."""
    Bridge(server, token, sys.stdout.buffer).carry(sys.stdin.buffer)


class Bridge:
    def __init__(self, server: str, token: str, out: BinaryIO) -> None:
        self._address = urlsplit(f"{server}/mcp")
        self._token = token
        self._out = out
        self._turn = threading.Lock()  # guards the output and the connections
        self._open: dict[str, http.client.HTTPConnection] = {}

    def carry(self, lines: Iterable[bytes]) -> None:
        under_way: list[threading.Thread] = []
        for line in lines:
            if not line.strip():
                continue
            under_way = [thread for thread in under_way if thread.is_alive()]
            carrier = threading.Thread(target=self._pass_on, args=(line,))
            carrier.start()
            under_way.append(carrier)
        for carrier in under_way:
            carrier.join()

    def _pass_on(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            self._write(_error(None, _PARSE_ERROR, "This is not JSON."))
            return
        if not isinstance(message, dict):
            self._write(_error(None, _PARSE_ERROR, "A message is one JSON object."))
            return
        if message.get("method") == "notifications/cancelled":
            self._give_up((message.get("params") or {}).get("requestId"))
            return
        number = message.get("id")
        try:
            answer = self._post(line, message)
        except (OSError, http.client.HTTPException) as error:
            reason = f"{self._address.netloc} does not answer: {error or type(error).__name__}."
            answer = _error(number, _UNREACHABLE, reason)
        if "id" in message and "method" in message and answer is not None:
            self._write(answer)

    def _post(self, line: bytes, message: Message) -> Message | None:
        secure = self._address.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(self._address.netloc, timeout=_PATIENCE)
        connection.response_class = response_until(time.monotonic() + _PATIENCE)
        key = json.dumps(message.get("id"))
        with self._turn:
            self._open[key] = connection
        try:
            connection.request(
                "POST", self._address.path, line, {**_headers(message), **self._proof()}
            )
            response = connection.getresponse()
            body = response.read(_LARGEST)
        finally:
            with self._turn:
                self._open.pop(key, None)
            connection.close()
        return _understood(message, response.status, body)

    def _proof(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    def _give_up(self, number: object) -> None:
        """Drop a cancelled request; the server notices the closed connection."""
        with self._turn:
            connection = self._open.get(json.dumps(number))
            if connection is not None and connection.sock is not None:
                try:
                    connection.sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return  # it was answered just now

    def _write(self, message: Message) -> None:
        line = json.dumps(message).encode() + b"\n"  # ASCII: lone surrogates cannot be encoded
        with self._turn:
            try:
                self._out.write(line)
                self._out.flush()
            except BrokenPipeError:
                os._exit(0)  # the client is gone


def _headers(message: Message) -> dict[str, str]:
    """Return the headers that describe a message to the server."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    version = meta.get(_VERSION) if isinstance(meta, dict) else None
    if isinstance(version, str) and version.isascii() and version.isprintable():
        method = str(message.get("method", ""))
        headers |= {"MCP-Protocol-Version": version, "Mcp-Method": method}
        name = params.get(_NAMED.get(method, ""))
        if isinstance(name, str) and name.isascii() and name.isprintable():
            headers["Mcp-Name"] = name
    return headers


def _understood(message: Message, status: int, body: bytes) -> Message | None:
    if status == 202:
        return None
    number = message.get("id")
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.get("jsonrpc") == "2.0":
        # A server that could not read the message does not know its id.
        return {**answer, "id": number} if answer.get("id") is None else answer
    title = answer.get("title") if isinstance(answer, dict) else None
    return _error(number, _UNREACHABLE, str(title or f"The server answered with {status}."))


def _error(number: object, code: int, text: str) -> Message:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}
