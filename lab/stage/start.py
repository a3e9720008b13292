"""Starts a stage: control plane, definitions, simulated Google Cloud and engine, in that order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fleet.preview.record.redact import Redactor
from lab.cloud.autopilot.install import install as install_autopilot
from lab.cloud.disks import Disks
from lab.cloud.gateway import GatewayController
from lab.cloud.gateway_prerequisites import prerequisites_of
from lab.cloud.keda.operator import Keda
from lab.cloud.kubelet_stages import kubelet_stages
from lab.cloud.provisioner import Provisioner
from lab.cloud.standby import Standby
from lab.cloud.stock import Stock
from lab.cloud.timings import Timings, timings_for
from lab.cloud.world import World
from lab.control_plane.cluster import ControlPlane
from lab.control_plane.custom_resources.definitions import keda_definitions
from lab.control_plane.custom_resources.install import install
from lab.providers.google.cloud import SimulatedCloud
from lab.providers.kubernetes.waiter import SLACK_SECONDS
from lab.results.clock import Clock
from lab.stage.domain import Domain
from lab.stage.meter import Meter
from lab.stage.stage import LAG_SECONDS, History, Stage, Surroundings, record
from lab.stage.updates import updating
from lab.stage.variants import varied

if TYPE_CHECKING:
    from fleet.preview.offline import OfflineStack
    from settings.stack import Settings

EMPTY_WALL_SECONDS: Final = 4.0
"""Minimum wall time before an empty node is removed, so that the scheduler can use it."""
QUICK_SPEED: Final = 300.0
"""Above this speed waits get more wall time: Pulumi's timeouts would end before Kubernetes can act."""


@contextlib.contextmanager
def started(opened: OfflineStack, around: Surroundings) -> Iterator[Stage]:
    """A stage whose stack has not been applied yet; leaving the block stops everything.

    Raises RehearsalError if a program is missing or does not start.
    """
    # A declared canary would change every count.
    if opened.settings.rollout is not None:
        opened = varied(opened, {"rollout": None})
    settings, clock, history = opened.settings, Clock(around.speed), History()
    timings = _timings(settings, clock)
    with contextlib.ExitStack() as closing:
        around.progress("control plane")
        control_plane = closing.enter_context(
            ControlPlane(
                around.binaries,
                stages=kubelet_stages(timings, clock),
                progress=around.progress,
            )
        )
        api, recording = control_plane.api, record(opened, around)
        around.progress("definitions")
        install(api, around.definitions)
        install_autopilot(api)
        world = World(api, clock)
        meter, stock = Meter(world, settings.server.name), Stock.for_settings(settings)
        provisioner = Provisioner(world, stock, timings, project=settings.project)
        disks, standby = Disks(world, timings), Standby(world)
        cloud, named = SimulatedCloud(), settings.gateway
        domain = Domain(cloud, given_address=named.address, given_certificate=named.tls.certificate)
        gateway = GatewayController(world, prerequisites_of(recording), timings, domain)
        closing.enter_context(world)
        if settings.scales_by_keda:
            if not settings.makes_keda:  # The cluster's owner has installed it.
                install(api, keda_definitions(around.charts.modules))
            closing.enter_context(Keda(api))
        for controller in (provisioner, disks, gateway, standby):
            closing.enter_context(controller)
        updates = closing.enter_context(
            updating(
                opened.root,
                api,
                clock,
                chart_objects=around.charts.objects,
                redactor=Redactor(recording.plaintexts),
                slack_seconds=SLACK_SECONDS if clock.speed <= QUICK_SPEED else LAG_SECONDS,
                folder=control_plane.folder / "pulumi",
                kubeconfig=control_plane.kubeconfig,
                progress=around.progress,
                cloud=cloud,
            )
        )
        yield Stage(
            opened=opened,
            around=around,
            clock=clock,
            timings=timings,
            control_plane=control_plane,
            world=world,
            meter=meter,
            stock=stock,
            provisioner=provisioner,
            gateway=gateway,
            domain=domain,
            updates=updates,
            history=history,
        )


def _timings(settings: Settings, clock: Clock) -> Timings:
    timings = timings_for(settings)
    least = EMPTY_WALL_SECONDS * clock.speed
    return replace(timings, scale_down_seconds=max(timings.scale_down_seconds, least), least_idle_seconds=least)
