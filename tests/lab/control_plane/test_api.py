"""Reads of a busy API server, and the texts of its warnings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from kubernetes import client

from lab.control_plane import api
from lab.control_plane.api import ApiRefusedError, ClusterApi
from tests.support.warning_api import warning_texts

BUSY = (429, b'{"reason": "TooManyRequests", "message": "storage is (re)initializing"}')
READY = (200, b'{"gitVersion": "v1.36.3"}')


@pytest.fixture
def answers() -> list[tuple[int, bytes]]:
    return []


@pytest.fixture
def cluster(answers: list[tuple[int, bytes]], monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterApi]:
    """A cluster whose server gives these answers, one a request."""

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers.pop(0)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_DELETE(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setattr(api, "BUSY_PAUSE_SECONDS", 0.001)
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        settings = client.Configuration()
        settings.host, settings.no_proxy = f"http://127.0.0.1:{server.server_port}", "127.0.0.1"
        asked = ClusterApi(client.ApiClient(settings))
        yield asked
        asked.close()
        server.shutdown()


def test_a_busy_server_is_asked_again(cluster: ClusterApi, answers: list[tuple[int, bytes]]) -> None:
    answers += [BUSY, BUSY, READY]
    assert cluster.raw("GET", "/version") == {"gitVersion": "v1.36.3"}


def test_not_for_ever(cluster: ClusterApi, answers: list[tuple[int, bytes]]) -> None:
    answers += [BUSY] * (2 + api.BUSY_RETRIES)
    with pytest.raises(ApiRefusedError, match="initializing"):
        cluster.raw("GET", "/version")
    assert len(answers) == 1


def test_what_changes_something_is_the_callers_to_repeat(cluster: ClusterApi, answers: list[tuple[int, bytes]]) -> None:
    answers += [BUSY, READY]
    with pytest.raises(ApiRefusedError):
        cluster.raw("DELETE", "/version")


def test_a_warning_is_the_quoted_text_of_its_header_once_and_in_order() -> None:
    assert warning_texts(['299 - "b"', r'299 kube "gke-spot is \"yes\", in C:\\x"', '299 - "b"']) == [
        "b",
        r'gke-spot is "yes", in C:\x',
    ]


def test_a_header_of_another_format_is_returned_unchanged() -> None:
    assert warning_texts(["110 cache stale"]) == ["110 cache stale"]
