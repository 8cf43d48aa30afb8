"""An HTTP client for weft servers, with errors for people.

A request that only reads may be repeated; a request that writes carries a key, by which the server
recognises the repetition. Redirects are not followed: they could lead the token anywhere.
"""

from __future__ import annotations

import io
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from weft import __version__
from weft.errors import NoAnswer

_PAUSES: Final = (0.1, 0.4)  # seconds between tries
_CONNECT: Final = 10.0  # seconds
_UNHEARD: Final = 10  # seconds after which a connection without a sign of the server is given up
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_MOST: Final = 256 << 20  # bytes of a reply


@dataclass(frozen=True, kw_only=True)
class Server:
    url: str  # http://127.0.0.1:7337, without a slash at its end
    token: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class ServerReply:
    status: int
    kind: str  # media type
    data: bytes


class Client:
    """Requests to a server. Threads may share it; each request has a connection to itself."""

    def __init__(self, server: Server, *, most: int = _MOST, unheard: int = _UNHEARD) -> None:
        """Bound replies to `most` bytes, and silent connections to `unheard` seconds."""
        self.url = server.url
        self._unheard = unheard
        parts = urlsplit(server.url)
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        self._prefix = parts.path
        self._most = most
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": f"weft/{__version__}",
        }
        self.use_token(server.token)
        self._lock = threading.Lock()
        self._idle: list[HTTPConnection] = []
        self._busy: set[HTTPConnection] = set()
        self._closed = False

    def use_token(self, token: str) -> None:
        """Send this token with every request from now on."""
        if token:
            self._headers = {**self._headers, "Authorization": f"Bearer {token}"}

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        seconds: float,
        headers: Mapping[str, str] = _NONE,
    ) -> ServerReply:
        """Send a request that may arrive twice, and wait for the reply.

        `seconds` bounds the whole reply, however slowly the server sends it.
        """
        begun = time.monotonic()
        end = begun + seconds
        for pause in (*_PAUSES, None):
            try:
                return self._once(self._take(), method, path, body, headers, end)
            except TimeoutError as error:
                waited = time.monotonic() - begun
                raise NoAnswer(f"{self.url} did not answer within {waited:.0f} s.") from error
            except NoAnswer as error:
                if pause is None or self._closed or not _may_be_back_soon(error.__cause__):
                    raise
            except _Stale as error:  # the server closed an idle connection, or is gone
                if pause is None or self._closed:
                    raise NoAnswer(f"{self.url} went away before it answered.") from error
            time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        """Close all connections, including requests of other threads."""
        with self._lock:
            self._closed = True
            idle, busy = list(self._idle), list(self._busy)
            self._idle.clear()
        for connection in idle:
            connection.close()
        for connection in busy:
            _shut(connection)  # the thread that waits there closes it

    def _new(self) -> HTTPConnection:
        if self._secure:
            context = ssl.create_default_context()
            return HTTPSConnection(self._host, self._port, timeout=_CONNECT, context=context)
        return HTTPConnection(self._host, self._port, timeout=_CONNECT)

    def _take(self) -> HTTPConnection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        connection = self._new()
        self._connect(connection)
        return connection

    def _connect(self, connection: HTTPConnection) -> None:
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message
            raise NoAnswer(f"The certificate of {self.url} is not good: {why}.") from error
        except ssl.SSLError as error:
            raise NoAnswer(f"{self.url} speaks no TLS ({error.reason}); is it http://?") from error
        except (OSError, UnicodeError) as error:
            raise NoAnswer(
                f"There is no server at {self.url} ({_reason(error)}); `weft serve` starts one."
            ) from error
        _notice_silence(connection.sock, self._unheard)

    def _once(
        self,
        connection: HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        end: float,
    ) -> ServerReply:
        keep = False
        try:
            with self._lock:
                if self._closed:
                    raise NoAnswer(f"{self.url} is not asked any more.")
                self._busy.add(connection)
            if connection.sock is not None:
                connection.sock.settimeout(max(0.001, end - time.monotonic()))
            connection.response_class = response_until(end)
            connection.request(method, self._prefix + path, body, {**self._headers, **headers})
            with closing(connection.getresponse()) as response:
                reply = self._read(response)
                keep = not response.will_close
        except TimeoutError:
            raise
        except (ConnectionError, ssl.SSLEOFError) as error:
            raise _Stale from error
        except OSError as error:
            raise NoAnswer(f"{self.url} does not answer: {_reason(error)}.") from error
        except (HTTPException, ValueError) as error:
            raise self._nonsense(f"{type(error).__name__}") from error
        finally:
            with self._lock:
                self._busy.discard(connection)
                keep = keep and not self._closed
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()
        return reply

    def _read(self, response: HTTPResponse) -> ServerReply:
        if 300 <= response.status < 400:
            raise NoAnswer(
                f"{self.url} sends callers elsewhere, where weft does not follow: name the server "
                "itself."
            )
        length = response.length or 0
        data = b"" if length > self._most else response.read(self._most + 1)
        if length > self._most or len(data) > self._most:
            raise NoAnswer(f"{self.url} answered more than {self._most >> 20} MB.")
        kind = response.headers.get_content_type()
        return ServerReply(status=response.status, kind=kind, data=data)

    def _nonsense(self, what: str) -> NoAnswer:
        return NoAnswer(f"{self.url} is no weft server: it does not speak HTTP properly ({what}).")


def _notice_silence(connection: socket.socket, seconds: int) -> None:
    """Let the kernel end a connection whose packets vanish; a server that only computes may wait.

    Otherwise TCP would repeat a lost heartbeat ever more rarely, and miss the return of the network
    for as long as it was away.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", seconds),
        ("TCP_KEEPINTVL", max(1, seconds // 2)),
        ("TCP_USER_TIMEOUT", seconds * 1000),
    ):
        if hasattr(socket, name):  # macOS has other names
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def response_until(end: float) -> type[HTTPResponse]:
    """Make a class of responses that must have arrived whole before `end`, on the monotonic clock.

    The time limit of a socket starts again with every byte, so a server that sends a byte at a time
    could hold its client for ever.
    """

    class Response(HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **keywords: Any) -> None:
            super().__init__(sock, *args, **keywords)
            raw = self.fp.detach()
            assert isinstance(raw, socket.SocketIO)
            self.fp = io.BufferedReader(_BytesUntil(raw, sock, end))

    return Response


class _BytesUntil(io.RawIOBase):
    """The bytes of a socket that arrive before a deadline."""

    def __init__(self, raw: socket.SocketIO, sock: socket.socket, end: float) -> None:
        self._raw = raw
        self._sock = sock
        self._end = end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Stale(Exception):
    """The connection ended before the answer came."""


def _may_be_back_soon(cause: BaseException | None) -> bool:
    return isinstance(cause, OSError) and not isinstance(cause, TimeoutError | ssl.SSLError)


def _shut(connection: HTTPConnection) -> None:
    try:
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has ended by itself


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, socket.gaierror):
        return "that name is unknown"
    if isinstance(error, TimeoutError):
        return "it does not answer"
    return getattr(error, "strerror", None) or str(error)
