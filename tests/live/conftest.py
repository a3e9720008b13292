"""Google on loopback, and a user who is logged in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from live.google_http import GoogleHttp
from live.google_token import VARIABLE, GoogleToken
from tests.live.fake_google import TOKEN, FakeGoogle, fake_google


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    """Cloud Storage and managed Prometheus on loopback."""
    with fake_google() as running:
        yield running


@pytest.fixture
def http(monkeypatch: pytest.MonkeyPatch) -> GoogleHttp:
    """Requests of the user whom the fake Google knows, without long pauses."""
    monkeypatch.setenv(VARIABLE, TOKEN)
    return GoogleHttp(GoogleToken(), pause_seconds=0.01)
