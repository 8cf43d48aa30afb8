"""This machine as a worker host of a server: its credentials, its mirror and its way home.

A host joins once, with a token that is good for that alone, and keeps the token it gets in a file
that only its user can read. It renews that token while it works: it keeps the new token, then
confirms it, and only then its earlier tokens end. So a crash at any moment leaves a valid token.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Struct

from weft.config import RunSettings
from weft.errors import InputError, NoAnswer, Unauthenticated
from weft.formats import listed
from weft.git.http_backend import CandidateName
from weft.git.mirror import (
    HomeRemote,
    fetch,
    open_mirror,
    push,
    try_to_fetch,
    write_helper,
)
from weft.model import RandomId
from weft.project.home_settings import find_kept, read_home_settings
from weft.project.mirror_use import MirrorUse, taking_mirror
from weft.project.project import Project
from weft.store.remote_calls import Unreadable, convert, decode
from weft.store.remote_store import VERBS, result_of
from weft.store.server_client import Client, Server
from weft.workspace.locks import Lock
from weft.workspace.names import trunk_ref

log = logging.getLogger(__name__)

_SECONDS: Final = 60.0
_RENEWED: Final = 86_400.0  # seconds after which a host renews its token
_RECORD: Final = "host.json"
_RENEWAL: Final = "/v1/hosts/token"
_TEXT: Final = re.compile(r"[!-~]{1,500}")

HostName = Annotated[str, msgspec.Meta(pattern=r"\A[0-9A-Za-z][0-9A-Za-z_.-]{0,99}\Z")]
Secret = Annotated[str, msgspec.Meta(pattern=r"\A[!-~]{0,500}\Z")]


class HostCredentials(Struct, frozen=True, kw_only=True):
    host: HostName  # the name that the server gave this host
    repository: RandomId  # the id of the server's repository
    secret: Secret
    checks: bool = False  # it may report checks
    since: float = 0.0  # when the token was made, by the clock of this host
    confirmed: bool = False  # the server knows that this host has kept the token
    server: str = ""  # its URL


class HostFiles:
    """The files of this host for a server: credentials, and the program that git asks for them."""

    def __init__(self, url: str, environment: Mapping[str, str]) -> None:
        name = hashlib.sha256(url.encode()).hexdigest()[:16]
        state = _user_directory(environment, "XDG_STATE_HOME", ".local/state")
        cache = _user_directory(environment, "XDG_CACHE_HOME", ".cache")
        self.directory = state / "weft" / "hosts" / name
        self.token = self.directory / "token"
        self.helper = self.directory / "ask-token"
        self.mirrors = cache / "weft" / "mirrors"
        self._record = self.directory / _RECORD
        self._former = self.directory / "former.json"

    def find(self) -> HostCredentials | None:
        return _find_credentials(self._record)

    def find_former(self) -> HostCredentials | None:
        """Return the credentials with which this host can prove its name when it joins again."""
        return self.find() or _find_credentials(self._former)

    def forget(self) -> None:
        """Forget a token that the server has ended; keep it as a proof of this host's name."""
        self.token.unlink(missing_ok=True)
        self._record.replace(self._former)

    def describe_joined(self) -> str:
        """Name the servers that this host has joined."""
        records = map(_find_credentials, self.directory.parent.glob(f"*/{_RECORD}"))
        servers = sorted(known.server for known in records if known is not None and known.server)
        return f"it has joined {listed(servers) or 'no server'}"

    def get(self) -> HostCredentials:
        known = self.find()
        if known is None:
            raise InputError(f"The credentials of this host in {self.directory} are gone.")
        return known

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Keep other processes of this host from renewing the token."""
        lock = Lock(self.directory / "renewal.lock")
        with closing(lock):
            lock.wait()
            yield

    def keep(self, known: HostCredentials) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_secret(self._record, msgspec.json.encode(known))
        _write_secret(self.token, known.secret.encode())
        write_helper(self.helper)


def _find_credentials(path: Path) -> HostCredentials | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=HostCredentials)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _user_directory(environment: Mapping[str, str], variable: str, usual: str) -> Path:
    named = environment.get(variable, "")
    home = Path(environment.get("HOME") or Path.home())
    return Path(named) if named.startswith("/") else home / usual


def _write_secret(path: Path, data: bytes) -> None:
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    draft.replace(path)


def join(
    url: str, token_file: Path | None, files: HostFiles, *, checks: bool = False
) -> HostCredentials:
    """Return this host's credentials, renewed if they are old; with a token to join, join if the
    server takes them no longer.

    With such a token and `checks` join as well if the credentials do not let it report checks. A
    host that joins again shows its former token, and keeps its name. A warning says that a token
    was not used.
    """
    token = None if token_file is None else _read_token(token_file)
    known = files.find()
    if known is not None and (known.checks or not checks or token is None):
        try:
            current = renew(url, files)
            if token is not None:
                _require_valid(Server(url=url, token=current.secret))
                log.warning(
                    "This host has joined %s already; the token in %s was not used.",
                    url,
                    token_file,
                )
        except Unauthenticated:
            if token is None:
                raise
        else:
            return current
    if token is None:
        raise InputError(
            f"This host has not joined {url} ({files.describe_joined()}): `weft token create NAME "
            "--join` there makes a token; put it into a file and name that with --token-file."
        )
    if known is not None:
        _require_no_worker(url, files.mirrors / f"{known.repository}.git")
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:50].lstrip("_.-") or "host"
    former = files.find_former()
    proof = {} if former is None else {"former": former.secret}
    body = msgspec.json.encode({"name": name, **proof})
    try:
        return _exchange(Server(url=url, token=token), "/v1/hosts", body, files)
    except Unauthenticated as error:
        raise Unauthenticated(
            f"{url} does not take the token in {token_file}: it is unknown, used up or expired. "
            "`weft token create NAME --join` there makes another token to join."
        ) from error


def _require_valid(server: Server) -> None:
    """Raise `Unauthenticated` if the server takes a token no longer."""
    client = Client(server)
    try:
        reply = client.send("GET", VERBS, seconds=_SECONDS)
    finally:
        client.close()
    if reply.status == 401:
        raise refused_token(server.url)


def _require_no_worker(url: str, mirror: Path) -> None:
    """Raise if a worker of this host runs: it would push with the token of another host."""
    if not mirror.is_dir():
        return
    with taking_mirror(mirror) as free:
        if not free:
            raise InputError(
                f"A worker of this host works for {url} under its present name. End it with "
                f"`weft worker --leave --server {url}`, then join again."
            )


def renew(url: str, files: HostFiles) -> HostCredentials:
    """Return this host's credentials; renew them after a day, and confirm those that are new.

    Workers of the same host take turns. Raise `Unauthenticated` if the server has ended the token.
    """
    known = files.get()
    if _is_fresh(known) and known.confirmed:
        return known
    with files.turn():
        known = files.get()  # another worker may have renewed it meanwhile
        if not _is_fresh(known):
            server = Server(url=url, token=known.secret)
            known = _exchange(server, _RENEWAL, None, files)
        if not known.confirmed:
            _post(Server(url=url, token=known.secret), f"{_RENEWAL}/confirmation", None, 204)
            known = msgspec.structs.replace(known, confirmed=True)
            files.keep(known)  # both files: a crash may have come between them
    return known


def _is_fresh(known: HostCredentials) -> bool:
    return 0 <= time.time() - known.since < _RENEWED


def _post(server: Server, path: str, body: bytes | None, status: int) -> bytes:
    client = Client(server)
    try:
        key = {"Idempotency-Key": secrets.token_hex(16)}
        reply = client.send("POST", path, body, seconds=_SECONDS, headers=key)
    finally:
        client.close()
    if reply.status == 401:
        raise refused_token(server.url)
    if reply.status != status:
        result_of(server.url, "hosts", reply, HostCredentials)  # raises its error
    return reply.data


def _exchange(server: Server, path: str, body: bytes | None, files: HostFiles) -> HostCredentials:
    data = _post(server, path, body, 201)
    try:
        given: HostCredentials = convert(decode(data), HostCredentials)
    except Unreadable as error:
        raise NoAnswer(
            f"{server.url} gave this host no name, repository and token that can be used: {error}."
        ) from error
    if not given.secret:
        raise InputError(
            f"{server.url} gave this host a token that was lost on the way: join again."
        )
    known = msgspec.structs.replace(given, since=time.time(), confirmed=False, server=server.url)
    files.keep(known)
    return known


def refused_token(url: str) -> Unauthenticated:
    return Unauthenticated(
        f"{url} does not take the token of this host: it was revoked, or has expired. `weft token "
        "create NAME --join` there makes a token to join; put it into a file and name that with "
        "--token-file."
    )


def _read_token(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise InputError(f"Cannot read the token in {path}: {error.strerror}.") from error
    if not _TEXT.fullmatch(text):
        raise InputError(f"{path} contains no token: a token is a word of printable characters.")
    return text


def _open_mirror(mirror: Path) -> MirrorUse:
    """Open a mirror, or make it; make it again if another process deletes it just now."""
    while True:
        open_mirror(mirror)
        use = MirrorUse(mirror)
        if use.is_there():
            return use
        use.close()


class MirrorTransport:
    """The way between the mirror of this host and the repository of home."""

    def __init__(
        self,
        mirror: Path,
        home: HomeRemote,
        read_settings: Callable[[], RunSettings],
        find_kept: Callable[[list[str]], list[str]],
    ) -> None:
        self.mirror = mirror
        self.read_settings = read_settings
        self._find_kept = find_kept
        self._home = home
        self._turn = threading.Lock()  # git locks references: fetches take turns
        self.use = _open_mirror(self.mirror)

    def fetch(self, run: str | None, commits: Collection[str]) -> None:
        trunk = "" if run is None else trunk_ref(run)
        specs = [f"+{trunk}*:{trunk}*"] if trunk else []
        with self._turn:
            fetch(self.mirror, self._home, specs)
            for commit in sorted(commits):
                try_to_fetch(self.mirror, self._home, commit)

    def push(self, commit: str, name: CandidateName) -> None:
        push(self.mirror, self._home, commit, name.ref)

    def find_kept(self, commits: Collection[str]) -> frozenset[str]:
        return frozenset(self._find_kept(sorted(commits)))


def open_server_transport(
    project: Project, known: HostCredentials, files: HostFiles
) -> MirrorTransport:
    """Open the mirror of the repository of a server."""
    mirror = files.mirrors / f"{known.repository}.git"
    url = f"{project.store_url}/git/{known.repository}"
    home = HomeRemote(url=url, token_file=files.token, helper=files.helper)
    settings, kept = partial(read_home_settings, project), partial(find_kept, project)
    return MirrorTransport(mirror, home, settings, kept)
