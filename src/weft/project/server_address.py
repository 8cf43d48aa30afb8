"""The address and token of the server that a command talks to.

A token is never an argument, which all users of the machine could read, and never part of a
message. It is sent unencrypted to this machine only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from weft.errors import InputError

if TYPE_CHECKING:
    from weft.store.server_client import Server

SERVER: Final = "WEFT_SERVER"
TOKEN: Final = "WEFT_TOKEN"  # noqa: S105  # its name
TOKEN_FILE: Final = "WEFT_TOKEN_FILE"  # noqa: S105
INSECURE: Final = "WEFT_INSECURE"

_FILE: Final = "server.token"
_PORTS: Final = {"http": 80, "https": 443}
_BARE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,200}(:[0-9]{1,5})?", re.ASCII)
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_MOST: Final = 4096  # bytes of a token
_TOKEN: Final = re.compile(r"[!-~]+", re.ASCII)


def find_server(
    environment: Mapping[str, str], own_token: Callable[[], Path | None]
) -> Server | None:
    """Return the named server with its token; `own_token` is the file in which a server of this
    user leaves its token."""
    if not environment.get(SERVER):
        return None
    from weft.store.server_client import Server  # late import: most commands need no HTTP

    url = get_url(environment)
    return Server(url=url, token=_token(url, environment, own_token))


def get_url(environment: Mapping[str, str]) -> str:
    """Return the named server's URL in its usual spelling; raise if it names no server."""
    given = environment.get(SERVER, "").rstrip("/")
    _check_url(given, environment)
    parts = urlsplit(given)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    usual = parts.port is None or parts.port == _PORTS[parts.scheme]
    port = "" if usual else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _check_url(url: str, environment: Mapping[str, str]) -> None:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # raises if it is no number
    except ValueError:
        parts = urlsplit("")
    if parts.username is not None or parts.password is not None:
        raise InputError(f"A server's URL has no name or password in it; put a token into {TOKEN}.")
    odd = parts.query or parts.fragment or not url.isprintable() or " " in url
    if parts.scheme not in ("http", "https") or not parts.hostname or odd:
        raise InputError(f"{url[:200]!r} names no server; write {_suggest(url)}.")
    if parts.scheme == "http" and not is_loopback(url) and environment.get(INSECURE) != "1":
        raise InputError(
            f"{url} would get the token in the clear. Use https, or set {INSECURE}=1 if everybody "
            "on the way may know it."
        )


def _suggest(url: str) -> str:
    """Return a URL for a name and a port without a scheme; else examples."""
    if not _BARE.fullmatch(url):
        return "http://127.0.0.1:7337 or https://NAME"
    return f"{'http' if is_loopback(f'http://{url}') else 'https'}://{url}"


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host in _LOOPBACK:
        return True
    import ipaddress  # late: hardly ever needed

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _token(url: str, environment: Mapping[str, str], own_token: Callable[[], Path | None]) -> str:
    if given := environment.get(TOKEN):
        return _good(given.strip(), TOKEN)
    if named := environment.get(TOKEN_FILE):
        return _good(_read(Path(named)), named)
    own = own_token() if is_loopback(url) else None
    # Another program may listen on the same port of another loopback address.
    if own is None or not own.is_file() or url not in read_addresses(own.with_suffix(".url")):
        return ""  # the server refuses a bad token itself
    return _good(_read(own), str(own))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST).decode(errors="replace").strip()
    except OSError as error:
        raise InputError(f"Cannot read the token in {path}: {error.strerror}.") from error


def _good(token: str, source: str) -> str:
    if not _TOKEN.fullmatch(token) or len(token) >= _MOST:
        raise InputError(f"{source} contains no token: a token is a word of printable characters.")
    return token


def address_file(store_file: Path | None, store_url: str, environment: Mapping[str, str]) -> Path:
    """Return the file in which a server leaves its addresses, beside its token."""
    return token_file(store_file, store_url, environment).with_suffix(".url")


def read_addresses(file: Path) -> list[str]:
    """Return the addresses that a server left: for this machine, then for other machines."""
    try:
        return file.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return []


def token_file(store_file: Path | None, store_url: str, environment: Mapping[str, str]) -> Path:
    """Return the file in which a server leaves a token for the user who started it.

    The file lies beside an SQLite store. For any other store it lies in the user's state directory,
    with a name made from the store's address without its password.
    """
    if store_file is not None:
        return store_file.parent / _FILE
    import hashlib  # late: hardly ever needed

    kept = environment.get("XDG_STATE_HOME", "")
    home = Path(kept) if kept.startswith("/") else Path.home() / ".local" / "state"
    parts = urlsplit(store_url)
    hosts = parts.netloc.rpartition("@")[2]
    address = f"{parts.username or ''}@{hosts}{parts.path}?{parts.query}"
    store = hashlib.sha256(address.encode()).hexdigest()[:12]
    return home / "weft" / f"server-{store}.token"
