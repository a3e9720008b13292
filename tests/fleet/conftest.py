"""Google on loopback, a user who is logged in, and a laptop that reaches no cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fleet.clients.google_api import VARIABLE, UserCredentials
from tests.fleet.clients.fake_google import TOKEN, FakeGoogle, fake_google

if TYPE_CHECKING:
    from tests.fleet.bench.run.laptop import Laptop


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


@pytest.fixture
def offline(tmp_path: Path, google: FakeGoogle) -> Laptop:
    """A laptop whose kubectl reaches no cluster."""
    from tests.fleet.bench.run.laptop import laptop

    return laptop(tmp_path, google)
