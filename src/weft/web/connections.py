"""The open connections of a server: how many one address and one token may have.

A connection belongs to nobody until a request on it shows a valid token, and from then on to that
token. Those of nobody are bounded by address: one more closes the oldest, so a new caller always
gets in, whatever thousands of others hold open. Those of a token are bounded by refusing requests.
One connection carries one request at a time, so this bounds the requests at once, too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Protocol

from weft.web.problems import Rejected

CONNECTION: Final = "connection"
"""Where in the state of an ASGI scope its connection is."""


@dataclass(frozen=True, kw_only=True)
class ConnectionBounds:
    unknown: int = 4000  # without a valid token
    unknown_of_address: int = 2000  # a thousand agents behind one proxy come back at once
    known: int = 5000  # with one
    of_token: int = 1500


class Connection(Protocol):
    @property
    def address(self) -> str: ...

    def drop(self) -> None:
        """Close it at once, without an answer."""


class Connections:
    def __init__(self, bounds: ConnectionBounds) -> None:
        self._bounds = bounds
        self._unknown: dict[str, dict[Connection, None]] = {}  # by address, oldest first
        self._order: dict[Connection, None] = {}  # the same of all addresses
        self._tokens: dict[Connection, str] = {}
        self._of_token: Counter[str] = Counter()

    def fit(self, descriptors: int) -> None:
        """Lower the bounds to what the process may have open."""
        unknown = min(self._bounds.unknown, descriptors // 3)
        self._bounds = ConnectionBounds(
            unknown=unknown,
            unknown_of_address=min(self._bounds.unknown_of_address, unknown),
            known=min(self._bounds.known, descriptors - unknown),
            of_token=self._bounds.of_token,
        )

    def add(self, connection: Connection) -> None:
        """Count a new connection; close the oldest unknown one if there are too many."""
        alike = self._unknown.setdefault(connection.address, {})
        alike[connection] = self._order[connection] = None
        crowd = alike if len(alike) > self._bounds.unknown_of_address else self._order
        if crowd is alike or len(crowd) > self._bounds.unknown:
            oldest = next(iter(crowd))
            self.remove(oldest)
            oldest.drop()

    def assign(self, connection: Connection, token: str) -> None:
        """Count a connection for the token shown on it; refuse if that has too many."""
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
