"""Requests with the user's token: whom they trust, and where the token goes."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from live.errors import LiveError
from live.google_http import GoogleHttp


@contextmanager
def serving(context: ssl.SSLContext | None = None, location: str = "") -> Iterator[tuple[str, list[str | None]]]:
    """A server's host and port, and the Authorization header of everything it was asked."""
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization"))
            self.send_response(302 if location else 200)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_certificate_that_is_not_trusted_is_told_at_once(http: GoogleHttp, monkeypatch: pytest.MonkeyPatch) -> None:
    trustme = pytest.importorskip("trustme")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with serving(context) as (address, seen), pytest.raises(LiveError, match="Set SSL_CERT_FILE") as caught:
        http.json("asking", f"https://{address}/", may="nobody")
    assert f"the certificate of {address}" in str(caught.value)
    assert caught.value.reason == "refused"
    assert seen == []


def test_the_token_goes_where_it_was_meant_to_and_no_further(http: GoogleHttp) -> None:
    with serving() as (elsewhere, strangers), serving(location=f"http://{elsewhere}/") as (address, seen):
        assert http.json("asking", f"http://{address}/", may="nobody") == {}
    assert seen == ["Bearer the-users-token"]
    assert strangers == [None]
