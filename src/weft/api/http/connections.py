"""The open connections of a server, bounded for each address and each token.

A connection is unknown until a request on it shows a valid token; from then on it belongs to that
token. Unknown connections are bounded by address: beyond the bound the oldest is closed, so a new
caller always gets in, however many connections another caller holds open. Beyond the bound of a
token, its requests are refused. A connection carries a single request at a time, so this also
bounds the requests at once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Protocol

from weft.api.http.problem_details import Rejected

CONNECTION: Final = "connection"
"""The key of the connection in the state of an ASGI scope."""


@dataclass(frozen=True, kw_only=True)
class ConnectionBounds:
    unknown: int = 4000  # without a valid token
    unknown_of_address: int = 2000  # a thousand agents behind a proxy may reconnect at once
    known: int = 5000  # with a valid token
    of_token: int = 1500


class Connection(Protocol):
    @property
    def address(self) -> str: ...

    def drop(self) -> None:
        """Close the connection at once, without an answer."""


class Connections:
    def __init__(self, bounds: ConnectionBounds) -> None:
        self._bounds = bounds
        self._unknown: dict[str, dict[Connection, None]] = {}  # by address, oldest first
        self._order: dict[Connection, None] = {}  # the same of all addresses
        self._tokens: dict[Connection, str] = {}
        self._of_token: Counter[str] = Counter()

    def fit(self, descriptors: int) -> None:
        """Lower the bounds to the number of files that the process may open."""
        unknown = min(self._bounds.unknown, descriptors // 3)
        self._bounds = ConnectionBounds(
            unknown=unknown,
            unknown_of_address=min(self._bounds.unknown_of_address, unknown),
            known=min(self._bounds.known, descriptors - unknown),
            of_token=self._bounds.of_token,
        )

    def add(self, connection: Connection) -> None:
        """Count a new connection; close the oldest unknown connection if there are too many."""
        alike = self._unknown.setdefault(connection.address, {})
        alike[connection] = self._order[connection] = None
        crowd = alike if len(alike) > self._bounds.unknown_of_address else self._order
        if crowd is alike or len(crowd) > self._bounds.unknown:
            oldest = next(iter(crowd))
            self.remove(oldest)
            oldest.drop()

    def assign(self, connection: Connection, token: str) -> None:
        """Count a connection for the token shown on it; raise `Rejected` if the token has too
        many."""
        if self._tokens.get(connection) == token:
            return
        if self._of_token[token] >= self._bounds.of_token:
            raise Rejected(429, "This token has too many connections here; close some of them.")
        if connection not in self._tokens and len(self._tokens) >= self._bounds.known:
            raise Rejected(503, "Too many requests are under way; ask again in a moment.")
        self.remove(connection)
        self._tokens[connection] = token
        self._of_token[token] += 1

    def remove(self, connection: Connection) -> None:
        token = self._tokens.pop(connection, None)
        if token is not None:
            self._of_token[token] -= 1
            if not self._of_token[token]:
                del self._of_token[token]
        if connection in self._order:
            del self._order[connection]
            alike = self._unknown[connection.address]
            del alike[connection]
            if not alike:
                del self._unknown[connection.address]
