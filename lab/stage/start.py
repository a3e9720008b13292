"""Starts a stage: control plane, definitions, Google's and KEDA's controllers, and the engine, in that order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fleet.preview.record.redact import Redactor
from lab.autopilot.install import install as install_autopilot
from lab.charts.registry import Registry
from lab.control_plane.api import Kind
from lab.control_plane.cluster import ControlPlane
from lab.control_plane.custom_resources.definitions import keda_definitions
from lab.control_plane.custom_resources.install import install
from lab.control_plane.mirror import Mirror
from lab.nodes.later import Later
from lab.nodes.maker import NodeMaker
from lab.nodes.stages import keda_stages, kubelet_stages, platform_stages
from lab.providers.google.cloud import SimulatedCloud
from lab.stage.meter import Meter
from lab.stage.stage import History, Stage, Surroundings, record
from lab.stage.updates import updating
from lab.stage.variants import varied

if TYPE_CHECKING:
    from fleet.preview.offline import OfflineStack

SCALED_OBJECT = Kind("keda.sh/v1alpha1", "ScaledObject")
_NODE, _POD = Kind("v1", "Node"), Kind("v1", "Pod")


@contextlib.contextmanager
def started(opened: OfflineStack, around: Surroundings) -> Iterator[Stage]:
    """A stage whose stack has not been applied yet; leaving the block stops everything.

    Raises RehearsalError if a program is missing or does not start.
    """
    # A declared canary would change every count.
    if opened.settings.rollout is not None:
        opened = varied(opened, {"rollout": None})
    settings = opened.settings
    with contextlib.ExitStack() as closing:
        around.progress("control plane")
        control_plane = closing.enter_context(ControlPlane(around.binaries, progress=around.progress))
        api, recording = control_plane.api, record(opened, around)
        around.progress("definitions")
        install(api, around.definitions)
        if settings.scales_by_keda and not settings.makes_keda:  # The cluster's owner has installed it.
            install(api, keda_definitions(around.modules))
        install_autopilot(api)
        control_plane.play("kubelets", kubelet_stages(around.binaries.kwok.parent), nodes=True)
        control_plane.play("platform", platform_stages())
        closing.enter_context(Later(control_plane, "keda", keda_stages(), SCALED_OBJECT))
        nodes, pods = Mirror(api, _NODE), Mirror(api, _POD)
        meter = Meter(nodes, pods, settings.server.name)
        for mirror in (nodes, pods):
            closing.enter_context(mirror)
        maker = closing.enter_context(NodeMaker(api, settings, nodes, pods))
        registry = closing.enter_context(Registry(around.charts, control_plane.credentials.signer))
        updates = closing.enter_context(
            updating(
                opened.root,
                control_plane,
                cloud=SimulatedCloud(control_plane.address),
                plugin=around.plugin,
                registry=registry,
                redactor=Redactor(recording.plaintexts),
                progress=around.progress,
            )
        )
        yield Stage(
            opened=opened,
            around=around,
            control_plane=control_plane,
            nodes=nodes,
            pods_seen=pods,
            meter=meter,
            maker=maker,
            registry=registry,
            updates=updates,
            history=History(),
        )
