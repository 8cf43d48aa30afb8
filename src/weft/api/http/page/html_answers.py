"""Answers of the page: HTML, compressed, with a tag by which the browser keeps what it has."""

from __future__ import annotations

import gzip
import hashlib
import time
from collections.abc import Callable
from typing import Annotated, Final

from fastapi import Query, Request, Response
from msgspec import Struct

from weft.api.http.auth import admit, bearer
from weft.api.http.requests import identify, in_slow_thread, in_thread, parts_of
from weft.model import Run
from weft.operations.identity import READ, Identity
from weft.page.markup import Html
from weft.store import Store
from weft.store.database import Transaction
from weft.store.runs import get_run, page_runs
from weft.store.store import BoundStore

View = Callable[[Store, Identity, float], Html]
"""A view for an identity at a time, from the store."""
SlowView = Callable[[Identity, float], Html]
"""A view that reads files or calls git."""

_HTML: Final = "text/html"
_SMALL: Final = 1000  # bytes that are not worth compressing
_LEVEL: Final = 4  # of compression: more saves little and takes longer
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept-Encoding, Authorization",
    "Cache-Control": "no-cache",
}


async def show(request: Request, view: View) -> Response:
    """Answer with a view that is read in a single transaction."""
    store, text = parts_of(request).store, bearer(request)

    def ask(tx: Transaction) -> Html:
        now = time.time()
        return view(BoundStore(store, tx), admit(tx, text, READ, now=now), now)

    return answer_html(request, await in_thread(request, lambda: store.read(ask)))


async def show_slowly(request: Request, view: SlowView) -> Response:
    """Answer with a view that reads files or calls git."""
    who = await identify(request, READ)
    html = await in_slow_thread(request, lambda: view(who, time.time()))
    return answer_html(request, html)


def answer_html(request: Request, html: Html) -> Response:
    return answer_file(request, html.encode(errors="replace"), _HTML)


def answer_file(request: Request, body: bytes, media_type: str) -> Response:
    """Answer with a body, or that the browser has it already."""
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    headers = {**_SAFE, "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if len(body) > _SMALL and "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        body = gzip.compress(body, _LEVEL, mtime=0)
    return Response(body, headers=headers, media_type=f"{media_type}; charset=utf-8")


RunName = Annotated[str, Query(max_length=200)]

_LISTED: Final = 50  # runs to choose from


class RunChoice(Struct, frozen=True, kw_only=True):
    run: Run | None  # None: there is no run yet
    runs: tuple[str, ...]  # newest first


def choose_run(store: Store, name: str) -> RunChoice:
    """Return the named run, or the newest unended run, or the newest."""
    runs, _ = page_runs(store, after=None, most=_LISTED)
    names = [run.id for run in runs]
    if name:
        chosen: Run | None = get_run(store, name)
    else:
        chosen = next((run for run in runs if run.state != "ended"), runs[0] if runs else None)
    if chosen is not None and chosen.id not in names:
        names.append(chosen.id)
    return RunChoice(run=chosen, runs=tuple(names))
