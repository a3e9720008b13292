"""Simulated disks: GKE's PD CSI driver (`pd.csi.storage.gke.io`) and its sidecars.

Objects, their order and simulated durations are as in GKE; no data is stored, and a pod starts without waiting for its disks. Disk
types, sizes and throughput are not checked: settings and the policy pack do that.
"""

from __future__ import annotations

from lab.cloud.agenda import Agenda
from lab.cloud.disk_reports import DiskReports
from lab.cloud.provisioning import Provisioning
from lab.cloud.snapshots import Snapshots
from lab.cloud.timings import Timings
from lab.cloud.world import World


class Disks:
    """Construct it before the world is entered; exit it before the cluster stops."""

    def __init__(self, world: World, timings: Timings) -> None:
        self._agenda = Agenda(world.clock, "disks")
        reports = DiskReports(world)
        Provisioning(world, self._agenda, reports, timings)
        Snapshots(world, self._agenda, reports, timings)

    def __enter__(self) -> Disks:
        return self

    def __exit__(self, *_: object) -> None:
        self._agenda.close()
