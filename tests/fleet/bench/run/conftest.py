"""A control plane without simulated nodes, for tests that play the nodes themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def bare_control_plane() -> Iterator[object]:
    """API server, controllers and scheduler; nobody plays nodes."""
    from lab.control_plane.build import binaries
    from lab.control_plane.cluster import ControlPlane

    with ControlPlane(binaries(print)) as running:
        yield running
