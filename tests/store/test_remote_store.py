"""A store that is elsewhere: what hostile, broken and vanishing servers come to."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cases import each_case
from wait_until import wait_until
from weft.errors import (
    InputError,
    NoAnswer,
    NotFound,
    StoreBusy,
    StoreError,
    Unauthenticated,
    WeftError,
)
from weft.store.overview import overview
from weft.store.remote_store import RemoteStore, result_of
from weft.store.server_client import Client, Server, ServerReply
from weft.store.tasks import cancel

SECRET = "weft_0123_secret"
GOOD = b'{"result": {"runs": {}, "waiting": [], "gates": {}, "tasks": [], "stopped": {}, '
GOOD += b'"drained": null, "ended": {}, "landed": {}}}'


@contextmanager
def answering(
    *answers: bytes, then: Callable[[socket.socket], None] | None = None
) -> Iterator[str]:
    """A server that gives these answers, one a connection, the last one for ever after."""
    listening = socket.create_server(("127.0.0.1", 0))
    requests: list[bytes] = []

    def serve() -> None:
        left = list(answers)
        while True:
            try:
                caller, _ = listening.accept()
            except OSError:
                return
            with caller:
                requests.append(caller.recv(65536))
                try:
                    caller.sendall(left.pop(0) if len(left) > 1 else left[0])
                    if then is not None:
                        then(caller)
                except OSError:
                    continue  # the client has heard enough

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def http(status: str, body: bytes, *headers: str, kind: str = "application/json") -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, *headers, "Connection: close", "", ""]).encode() + body


def look(url: str) -> object:
    with RemoteStore(Server(url=url, token=SECRET)) as store:
        return overview(store, most=1)


def test_a_good_answer_is_taken() -> None:
    with answering(http("200 OK", GOOD)) as url:
        assert look(url)


@each_case(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00" * 1000,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000,
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        http("200 OK", b"<html>hello</html>", kind="text/html"),
        http("200 OK", b"<html>hello</html>"),
        http("200 OK", b"[" * 100_000),
        http("200 OK", b"{}"),
        http("200 OK", b"null"),
        http("200 OK", b'{"result": null}'),
        http("200 OK", b'{"result": {"runs": 1}}'),
        http("200 OK", GOOD.replace(b"null", b'"long ago"')),
        http("200 OK", b'{"result": "\xff\xfe"}'),
        http("204 No Content", b""),
        http("302 Found", b"", "Location: http://127.0.0.1:1/"),
        http("307 Temporary Redirect", b"", "Location: https://elsewhere.invalid/"),
        http("404 Not Found", b"nothing", kind="text/plain"),
        http("500 Internal Server Error", b"{}", kind="application/problem+json"),
        http("502 Bad Gateway", b"oh", kind="text/html"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
    ],
)
def test_whatever_a_hostile_server_answers_is_one_sentence(answer: bytes) -> None:
    with answering(answer) as url, pytest.raises(NoAnswer) as raised:
        look(url)
    message = str(raised.value)
    assert url in message
    assert SECRET not in message
    assert len(message) < 500


def test_an_endless_answer_is_not_read_to_the_end() -> None:
    def pour(caller: socket.socket) -> None:
        while True:
            caller.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")

    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with answering(head, then=pour) as url:
        client = Client(Server(url=url, token=SECRET), most=1 << 20)
        with pytest.raises(NoAnswer, match="more than 1 MB"):
            client.send("GET", "/v1/verbs", seconds=30)


@each_case(
    ("start", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b" "),
    ],
)
def test_an_answer_that_drips_is_given_up_after_its_time(start: bytes, drop: bytes) -> None:
    over = threading.Event()

    def drip(caller: socket.socket) -> None:
        for _ in range(100):  # a client without a bound stays until then
            if over.wait(0.1):
                return
            caller.sendall(drop)

    with answering(start, then=drip) as url:
        client = Client(Server(url=url, token=SECRET))
        try:
            with pytest.raises(NoAnswer, match="within 1 s"):
                client.send("GET", "/v1/verbs", seconds=1)
        finally:
            over.set()
            client.close()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux alone has this bound")
def test_a_connection_that_moves_nothing_is_given_up_and_the_next_request_has_its_own() -> None:
    """The server accepts and reads nothing, which is as silent as packets that vanish."""
    stuck: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            stuck.append(listening.accept()[0])
            with listening.accept()[0] as caller:
                caller.recv(65536)
                caller.sendall(http("200 OK", GOOD))

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        client = Client(Server(url=url, token=SECRET), unheard=1)
        try:
            with pytest.raises(NoAnswer, match="did not answer") as given_up:
                client.send("POST", "/v1/verbs", b"x" * (32 << 20), seconds=20)
            assert "within 20 s" not in str(given_up.value)
            assert client.send("GET", "/v1/verbs", seconds=60).data == GOOD
        finally:
            client.close()
            thread.join()
            for connection in stuck:
                connection.close()


@each_case(
    ("status", "kind", "error"),
    [
        ("404 Not Found", "not_found", NotFound),
        ("503 Service Unavailable", "store_busy", StoreBusy),
        ("422 Unprocessable", "input_error", InputError),
        ("401 Unauthorized", "anything", Unauthenticated),
        ("404 Not Found", "unknown_verb", StoreError),
        ("400 Bad Request", "path", InputError),
        ("500 Internal Server Error", "name_of", NoAnswer),
        ("500 Internal Server Error", "exception", NoAnswer),
    ],
)
def test_an_error_comes_back_as_what_it_was_or_as_nothing_worse(
    status: str, kind: str, error: type[WeftError]
) -> None:
    body = f'{{"type": "{kind}", "title": "x", "status": 1, "detail": "Why it is so."}}'.encode()
    with (
        answering(http(status, body, kind="application/problem+json")) as url,
        pytest.raises(WeftError) as raised,
    ):
        look(url)
    assert type(raised.value) is error


@each_case(
    ("kind", "text"),
    [
        ("not_found", r"tasks\.get_task: the address may have a wrong path, or .* older or newer"),
        ("unknown_verb", r"tasks\.get_task: it is older or newer"),
    ],
)
def test_a_wrong_path_or_another_version_is_named_as_that(kind: str, text: str) -> None:
    problem = {"type": kind, "title": "", "status": 404, "detail": "Not Found"}
    data = json.dumps(problem).encode()
    reply = ServerReply(status=404, kind="application/problem+json", data=data)
    with pytest.raises(StoreError, match=text):
        result_of("http://x", "tasks.get_task", reply, int)


def test_a_question_is_asked_again_when_the_connection_was_lost() -> None:
    with answering(b"", http("200 OK", GOOD)) as url:
        assert look(url)


def test_who_waits_is_let_go_when_the_store_is_closed() -> None:
    def hold(caller: socket.socket) -> None:
        caller.recv(1)  # until the client goes

    with answering(b"", then=hold) as url:
        store = RemoteStore(Server(url=url, token=SECRET))
        before = set(threading.enumerate())
        with store.listen("events") as listener:
            [asks] = [thread for thread in threading.enumerate() if thread not in before]
            assert not listener.wait(0.3)
            store.close()
        wait_until(lambda: not asks.is_alive(), seconds=60)  # less than for an answer


def test_transactions_and_work_are_for_the_store_itself() -> None:
    with RemoteStore(Server(url="http://127.0.0.1:1", token="")) as store:
        with pytest.raises(RuntimeError):
            store.read(lambda tx: None)
        with pytest.raises(RuntimeError):
            store.write(lambda tx: None)
        with pytest.raises(NoAnswer, match="no server"):
            cancel(store, 1, now=0)


def test_a_token_shows_in_no_representation(tmp_path: Path) -> None:
    assert SECRET not in repr(Server(url="http://x", token=SECRET))
