"""A real control plane for the tests that need one, shared by all tests of a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from lab.control_plane.api import Manifest
    from lab.control_plane.build import Binaries
    from lab.control_plane.cluster import ControlPlane
    from lab.stage.stage import Surroundings


@pytest.fixture(scope="session")
def quick_stages() -> list[Manifest]:
    """Nodes and pods that are Ready at once, Jobs that succeed at once, pods that go when told to."""
    text = (Path(__file__).parent / "control_plane" / "quick_stages.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    """The programs of a control plane; built, some minutes, where they are not in the cache."""
    from lab.control_plane.build import binaries as provide

    return provide(print)


@pytest.fixture(scope="session")
def control_plane(binaries: Binaries, quick_stages: list[Manifest]) -> Iterator[ControlPlane]:
    """One control plane for the whole session. Tests share it: each works in namespaces and on nodes of its own names, and
    removes what is not namespaced."""
    from lab.control_plane.cluster import ControlPlane

    with ControlPlane(binaries) as running:
        running.play("kubelets", quick_stages, nodes=True)
        yield running


@pytest.fixture(scope="session")
def custom_resources(control_plane: ControlPlane) -> list[Manifest]:
    """GKE's and KEDA's custom resources on the session's control plane. They stay there: kinds that nobody writes disturb nobody."""
    from lab.control_plane.custom_resources.definitions import definitions, keda_definitions
    from lab.control_plane.custom_resources.install import install
    from lab.control_plane.modules import module_folders

    modules = module_folders(print)
    found = [*definitions(modules), *keda_definitions(modules)]
    install(control_plane.api, found)
    return found


@pytest.fixture(scope="session")
def around(binaries: Binaries) -> Surroundings:
    """Programs, definitions and charts of every stage; Pulumi's are built, half an hour of a processor, where they are not in the cache."""
    from lab.charts import keda, pool
    from lab.control_plane.custom_resources.definitions import definitions
    from lab.control_plane.modules import module_folders
    from lab.engine.installation import kubernetes_provider
    from lab.stage.stage import Surroundings

    modules = module_folders(print)
    return Surroundings(
        binaries=binaries,
        plugin=kubernetes_provider(print),
        definitions=tuple(definitions(modules)),
        modules=modules,
        charts=(pool.chart(modules), keda.chart(modules)),
    )
