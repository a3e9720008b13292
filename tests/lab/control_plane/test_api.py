"""Reads of a busy API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes import client

from lab.control_plane import api
from lab.control_plane.api import ApiRefusedError, ClusterApi
from tests.support.simulators.local_server import Answer, served

BUSY = (429, b'{"reason": "TooManyRequests", "message": "storage is (re)initializing"}')
READY = (200, b'{"gitVersion": "v1.36.3"}')


@pytest.fixture
def answers() -> list[tuple[int, bytes]]:
    return []


@pytest.fixture
def cluster(answers: list[tuple[int, bytes]], monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterApi]:
    """A cluster whose server gives these answers, one a request."""
    monkeypatch.setattr(api, "BUSY_PAUSE_SECONDS", 0.001)
    with served(lambda _: Answer(*answers.pop(0))) as port:
        settings = client.Configuration()
        settings.host, settings.no_proxy = f"http://127.0.0.1:{port}", "127.0.0.1"
        asked = ClusterApi(client.ApiClient(settings))
        yield asked
        asked.close()


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
