"""Google's disks as a stack meets them: volumes for claims, attachments for pods, images for snapshots. Simulated.

It stands for the PD CSI driver of GKE (`pd.csi.storage.gke.io`) and its sidecars. No byte is stored; what is real are the
objects, the order of things and, on the scaled clock, the time each takes. A machine attaches what its family attaches; sizes and
throughputs are not judged here: the settings and the policy pack refuse the wrong ones.
"""

from __future__ import annotations

from fleet.rehearse.simulation.agenda import Agenda
from fleet.rehearse.simulation.attachments import Attachments
from fleet.rehearse.simulation.disk_reports import DiskReports
from fleet.rehearse.simulation.provisioning import Provisioning
from fleet.rehearse.simulation.snapshots import Snapshots
from fleet.rehearse.simulation.timings import Timings
from fleet.rehearse.simulation.world import World


class Disks:
    """The stand-in. Make it before the world is entered; leave its context before the cluster goes."""

    def __init__(self, world: World, timings: Timings) -> None:
        self._agenda = Agenda(world.clock, "disks")
        reports = DiskReports(world)
        self.attachments = Attachments(world, self._agenda, reports, timings)
        Provisioning(world, self.attachments, self._agenda, reports, timings)
        Snapshots(world, self.attachments, self._agenda, reports, timings)

    def __enter__(self) -> Disks:
        return self

    def __exit__(self, *_: object) -> None:
        self._agenda.close()
