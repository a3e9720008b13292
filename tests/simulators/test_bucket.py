from __future__ import annotations

import socket

from tests.support.simulators.bucket import TOKEN, LocalBucket


def test_an_upload_that_breaks_off_is_no_object() -> None:
    with LocalBucket() as bucket:
        host, port = bucket.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as half:
            path = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=media&name=a"
            half.sendall(
                f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\nhalf".encode()
            )
            half.shutdown(socket.SHUT_WR)
            assert half.recv(100) == b""
        assert not bucket.objects
