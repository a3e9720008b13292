"""A control plane without simulated nodes, for tests that play the nodes themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.bench.run.laptop import Laptop, laptop
from tests.fleet.clients.fake_google import FakeGoogle, fake_google


@pytest.fixture(scope="session")
def bare_control_plane() -> Iterator[object]:
    """API server, controllers and scheduler; nobody plays nodes."""
    from lab.control_plane.build import binaries
    from lab.control_plane.cluster import ControlPlane

    with ControlPlane(binaries(print)) as running:
        yield running


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    """Cloud Storage and managed Prometheus on loopback."""
    with fake_google() as running:
        yield running


@pytest.fixture
def offline(tmp_path: Path, google: FakeGoogle) -> Iterator[Laptop]:
    """A laptop whose kubectl reaches no cluster."""
    with laptop(tmp_path, google) as made:
        yield made
