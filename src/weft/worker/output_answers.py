"""Answers of a worker host to readers that want the output of its attempts."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final, get_args

import anyio
from anyio.to_thread import run_sync

from weft.attempt import start_record
from weft.errors import InputError, WeftError
from weft.project.site import Site
from weft.runs.attempt_output import hide_secrets, read_lines
from weft.runs.host_output import OutputPiece, Stream, encode_piece, shorten_piece
from weft.store.check_orders import (
    OutputRequest,
    answer_output_request,
    list_output_requests,
)

log = logging.getLogger(__name__)

_LOOK: Final = 1.0  # seconds between two looks for requests
_SOON: Final = 0.1  # the same while a reader reads on
_LOOKS: Final = 20  # quick looks after an answer

_STREAMS: Final[dict[str, Stream]] = {stream: stream for stream in get_args(Stream)}


async def answer_loop(site: Site, host: str) -> None:
    """Answer the requests for the output of attempts on this host."""
    quick = 0
    while True:
        try:
            answered = await run_sync(answer_requests, site, host)
        except (WeftError, OSError) as error:
            log.warning("could not answer requests for output: %s", error)
            answered = 0
        quick = _LOOKS if answered else max(0, quick - 1)
        await anyio.sleep(_SOON if quick else _LOOK)


def answer_requests(site: Site, host: str) -> int:
    """Answer all open requests to this host; return their number."""
    requests = list_output_requests(site.store, host)
    for request in requests:
        piece = read_requested(site, request)
        answer_output_request(site.store, request.id, encode_piece(piece))
    return len(requests)


def read_requested(site: Site, request: OutputRequest) -> OutputPiece | None:
    """Read the output that a request asks for, without secrets; None if it is not here any more."""
    directory = site.directory(request.task, request.attempt)
    order = start_record.find(directory)
    if order is None or request.stream not in _STREAMS or request.start < 0:
        return None
    site = site.for_run(order.run)
    with suppress(InputError):  # without its agent file, secrets are known by their names only
        site.learn_secrets(site.read_agent(order.agent))
    piece = read_lines(
        directory,
        order,
        stream=_STREAMS[request.stream],
        offset=request.start,
        ended=request.ended,
    )
    return shorten_piece(hide_secrets(piece, site.store.redactor))
