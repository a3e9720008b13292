"""Google on loopback, and a user who is logged in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet.clients.google_api import VARIABLE, UserCredentials
from tests.fleet.clients.fake_google import TOKEN, FakeGoogle, fake_google


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    """Cloud Storage and managed Prometheus on loopback."""
    with fake_google() as running:
        yield running


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> UserCredentials:
    """A user whom the fake Google knows."""
    monkeypatch.setenv(VARIABLE, TOKEN)
    return UserCredentials()
