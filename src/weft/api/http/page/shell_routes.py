"""The shell of the page and its files, which hold no data and need no token; and the exchange of a
one-use code for a token."""

from __future__ import annotations

import time
from functools import cache
from importlib.resources import files
from typing import Final

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response

from weft.api.http.page.html_answers import answer_file
from weft.api.http.requests import encode, parts_of
from weft.errors import NotFound, Unauthenticated
from weft.store.tokens import is_page_code, redeem_page_code

router = APIRouter(include_in_schema=False)

_FILES: Final = {  # the parts of each file, by package
    "page.css": ("text/css", (("weft.page", "page.css"), ("weft.page", "live.css"))),
    "page.js": ("text/javascript", (("weft.page", "page.js"),)),
    "icon.svg": ("image/svg+xml", (("weft.page", "icon.svg"),)),
}
_CODE: Final = "x-weft-code"


@router.get("/")
async def shell(request: Request) -> Response:
    return answer_file(request, _read((("weft.page", "shell.html"),)), "text/html")


@router.get("/assets/{name}")
async def asset(request: Request, name: str) -> Response:
    if name not in _FILES:
        raise NotFound(f"The page has no file {name[:100]!r}.")
    media_type, parts = _FILES[name]
    return answer_file(request, _read(parts), media_type)


@cache
def _read(parts: tuple[tuple[str, str], ...]) -> bytes:
    return b"\n".join(files(package).joinpath(name).read_bytes() for package, name in parts)


@router.post("/exchange")
async def exchange(request: Request) -> Response:
    """Take a one-use code from the header, and answer with the token it becomes."""
    parts, code = parts_of(request), request.headers.get(_CODE, "")

    def redeem() -> str:
        if not is_page_code(parts.store, code, now=time.time()):
            raise Unauthenticated  # a read: a stranger's guesses do not make the store write
        return redeem_page_code(parts.store, code, now=time.time())

    token = await run_sync(redeem, limiter=parts.health_threads)
    headers = {"Cache-Control": "no-store"}
    return Response(encode({"token": token}), headers=headers, media_type="application/json")
