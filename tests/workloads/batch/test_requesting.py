from __future__ import annotations

import errno
import http.client
import socket
import threading

import pytest

from tests.support.rows import each_row
from workloads.batch.pods.requesting import Endpoint, outcome_of

URL = "/v1/completions"


def endpoint(url: str, *, request_seconds: float = 10.0) -> Endpoint:
    return Endpoint(url, URL, key=None, connect_seconds=1.0, request_seconds=request_seconds)


@each_row(
    "why, status, content, kind, code",
    [
        ("an answer", 200, b'{"id": "x"}', "answer", ""),
        ("half an answer", 200, b'{"id": ', "failed", "not-json"),
        ("another program's page", 200, b"[]", "failed", "not-json"),
        ("a bad document", 400, b'{"error": {"message": "too long"}}', "answer", "http-400"),
        ("a document that is too large", 413, b"", "answer", "http-413"),
        ("a wrong key may be mended", 401, b"{}", "failed", "http-401"),
        ("a route may come", 404, b"default backend", "failed", "http-404"),
        ("a full router", 429, b"", "refused", "http-429"),
        ("no engine", 503, b"", "refused", "http-503"),
        ("no server behind a balancer", 502, b"", "refused", "http-502"),
        ("an engine that failed", 500, b'{"error": {"message": "Internal"}}', "failed", "http-500"),
    ],
)
def test_what_an_answer_means(why: str, status: int, content: bytes, kind: str, code: str) -> None:
    outcome = outcome_of(status, content, "")
    assert (outcome.kind, outcome.code) == (kind, code), why


def test_a_request_ends_at_its_time_and_a_peer_that_vanished_is_a_broken_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert endpoint(url, request_seconds=0.05).send(b"{}").kind == "timeout"

        def vanished(_: http.client.HTTPConnection) -> None:
            raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

        monkeypatch.setattr(http.client.HTTPConnection, "getresponse", vanished)
        assert endpoint(url).send(b"{}").code == "connection-broken"


def test_who_does_not_listen_refuses_and_who_hangs_up_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

        def hang_up() -> None:
            connection, _ = server.accept()
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        assert endpoint(url).send(b"{}").kind == "failed"
        thread.join()
    assert endpoint(url).send(b"{}").kind == "refused"
    assert endpoint("http://no-such-host.invalid:1").send(b"{}").kind == "refused"
