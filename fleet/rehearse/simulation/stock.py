"""What Google has to give: machines with GPUs by the way they are had, reservations, quota. Drills change it while everything runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from settings.stack import Settings

Mode = Literal["spot", "flex-start", "reservation", "on-demand"]
"""How a machine is consumed."""
DEFAULT_ZONES: Final = ("europe-west4-a", "europe-west4-b", "europe-west4-c")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationStock:
    """A reservation of machines with GPUs."""

    nodes: int
    zone: str
    active: bool = True
    """False before the window of a calendar reservation begins."""
    project: str | None = None
    """Its owner, where that is not the stack's own project."""


Pool = tuple[Mode, str]
"""What is counted together: a mode, and with a reservation its name; with other machines their family."""
Refusal = Literal["not sold", "stock", "quota", "no reservation", "not active", "full", "other zone"]


@dataclass(eq=False)
class Stock:
    """Safe to change and read from any thread. None is plenty. Machines in use count: 12 is twelve at once, not twelve more.

    A change is noticed when the autoscaler asks next: at once for a new pod, after its back-off for one that was refused.
    """

    zones: tuple[str, ...] = DEFAULT_ZONES
    gpu_zones: tuple[str, ...] = ("europe-west4-b",)
    """Where the machines with GPUs are."""
    spot_nodes: int | None = None
    """Spot machines with GPUs that Google gives at once; likewise the two below."""
    flex_start_nodes: int | None = None
    on_demand_nodes: int | None = None
    quota_nodes: int | None = None
    """Machines with GPUs that the project's quota allows at once. What a reservation holds was counted when it was made."""
    _reservations: dict[str, ReservationStock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def for_settings(cls, settings: Settings) -> Stock:
        """Plenty of everything in the stack's zones, and the reservation that its capacity names."""
        from settings.sections.capacity import Calendar, Ladder, Reservation

        zones = tuple(sorted({*(f"{settings.region}-{letter}" for letter in "abc"), *settings.zones}))
        stock = cls(zones=zones, gpu_zones=settings.zones)
        capacity, zone = settings.capacity, settings.zones[0]
        if isinstance(capacity, Reservation):
            nodes = settings.nodes if capacity.nodes is None else capacity.nodes
            stock.reserve(capacity.name, nodes=nodes, zone=zone, project=capacity.project)
        elif isinstance(capacity, Calendar):
            nodes = settings.nodes if capacity.create is None else capacity.create.nodes
            stock.reserve(capacity.reservation, nodes=nodes, zone=zone)
        elif isinstance(capacity, Ladder) and capacity.reservation is not None:
            rung = capacity.reservation
            stock.reserve(rung.name, nodes=settings.nodes, zone=zone, project=rung.project)
        return stock

    # What drills change

    @property
    def reservations(self) -> dict[str, ReservationStock]:
        """The reservations by name, as a copy."""
        with self._lock:
            return dict(self._reservations)

    def reserve(
        self,
        name: str,
        *,
        nodes: int,
        zone: str,
        active: bool = True,
        project: str | None = None,
    ) -> None:
        """There is a reservation of this name; it replaces one that was there."""
        made = ReservationStock(nodes=nodes, zone=zone, active=active, project=project)
        with self._lock:
            self._reservations[name] = made

    def activate(self, name: str) -> None:
        """The window of a reservation begins. Raises KeyError for one that is not there."""
        with self._lock:
            self._reservations[name] = replace(self._reservations[name], active=True)

    def restore(self, other: Stock) -> None:
        """Make this the same as another one."""
        with self._lock:
            self.zones, self.gpu_zones = other.zones, other.gpu_zones
            self.spot_nodes, self.flex_start_nodes = other.spot_nodes, other.flex_start_nodes
            self.on_demand_nodes, self.quota_nodes = other.on_demand_nodes, other.quota_nodes
            self._reservations = other.reservations

    # What the provisioner asks

    def refusal(
        self, pool: Pool, in_use: Mapping[Pool, int], *, zone: str = "", project: str | None = None
    ) -> Refusal | None:
        """Why not one more machine of this pool, beside those in use; None where there is one."""
        mode, name = pool
        with self._lock:
            if mode == "reservation":
                return _reservation_refusal(self._reservations.get(name), in_use.get(pool, 0), zone, project)
            if name:
                return None
            if zone and zone not in self.gpu_zones:
                return "stock"
            limits: dict[Mode, int | None] = {
                "spot": self.spot_nodes,
                "flex-start": self.flex_start_nodes,
                "on-demand": self.on_demand_nodes,
            }
            if self.quota_nodes is not None and sum(in_use.get((one, ""), 0) for one in limits) >= self.quota_nodes:
                return "quota"
            limit = limits[mode]
            return "stock" if limit is not None and in_use.get(pool, 0) >= limit else None


def _reservation_refusal(there: ReservationStock | None, in_use: int, zone: str, project: str | None) -> Refusal | None:
    if there is None or (there.project is not None and there.project != project):
        return "no reservation"
    if zone and zone != there.zone:
        return "other zone"
    if not there.active:
        return "not active"
    return "full" if in_use >= there.nodes else None
