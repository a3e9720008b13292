"""Google's disks as a stack meets them: volumes for claims, attachments for pods, images for snapshots. Simulated.

It stands for the PD CSI driver of GKE (`pd.csi.storage.gke.io`) and its sidecars. No byte is stored; what is real are the
rules, the objects, the order of things and, on the scaled clock, the time each takes.
"""

from __future__ import annotations

from rehearsal.simulation.agenda import Agenda
from rehearsal.simulation.attachments import Attachments
from rehearsal.simulation.cloud_disks import CloudDisks, CloudItem, Volume
from rehearsal.simulation.disk_reports import DiskReports, Subject
from rehearsal.simulation.disk_rules import DiskTrouble
from rehearsal.simulation.provisioning import Provisioning
from rehearsal.simulation.snapshots import Snapshots
from rehearsal.simulation.timings import Timings
from rehearsal.simulation.world import World

SIMULATED_PROJECT = "simulated"
"""Google Cloud project in volume handles; there is none."""


class Disks:
    """The stand-in. Make it before the world is entered; close it (or leave its context) before the cluster goes."""

    def __init__(self, world: World, timings: Timings, *, project: str = SIMULATED_PROJECT) -> None:
        self.cloud = CloudDisks(world.clock.now_seconds)
        self._agenda = Agenda(world.clock, "disks")
        self._reports = DiskReports(world)
        self._provisioning = Provisioning(world, self.cloud, self._agenda, self._reports, timings, project)
        self._attachments = Attachments(world, self.cloud, self._agenda, self._reports, timings)
        self._snapshots = Snapshots(world, self.cloud, self._agenda, self._reports, timings, project)

    def __enter__(self) -> Disks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing more."""
        self._agenda.close()

    def inventory(self) -> tuple[CloudItem, ...]:
        """Disks and images that Google holds now, and would bill."""
        return self.cloud.inventory()

    def volumes(self) -> tuple[Volume, ...]:
        """Every volume, with who wrote it, its access modes and the nodes that have it."""
        return self.cloud.volumes()

    def why_waiting(self, kind: str, namespace: str, name: str) -> DiskTrouble | None:
        """What keeps a PersistentVolumeClaim, Pod or VolumeSnapshot waiting; None when no disk does."""
        return self._reports.why(kind, namespace, name)

    def troubles(self) -> dict[Subject, DiskTrouble]:
        """Every trouble with a disk that there is now, by (kind, namespace, name)."""
        return self._reports.all()
