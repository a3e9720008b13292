"""Simulated capacity: GPU nodes by mode, reservations, quota. Drills change it during a run."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from settings.sections.capacity import Calendar, ComputeClassMode, Reservation

if TYPE_CHECKING:
    from settings.stack import Settings

Mode = Literal["spot", "flex-start", "reservation", "on-demand"]
"""Consumption mode of a node."""
DEFAULT_ZONES: Final = ("europe-west4-a", "europe-west4-b", "europe-west4-c")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationStock:
    """A reservation of GPU nodes."""

    nodes: int
    zone: str
    active: bool = True
    """False before a calendar reservation's window."""
    project: str | None = None
    """Owner, if not the stack's project."""


Pool = tuple[Mode, str]
"""Key of counting: a mode, with the reservation's name; for CPU nodes with their family."""
Refusal = Literal["not sold", "stock", "quota", "disk quota", "no reservation", "not active", "full", "other zone"]


@dataclass(eq=False)
class Stock:
    """Capacity. Thread-safe. None is unlimited. Limits include nodes in use: 12 means twelve in total.

    A change takes effect at the autoscaler's next scan, or after its backoff for a pod that found no capacity.
    """

    zones: tuple[str, ...] = DEFAULT_ZONES
    gpu_zones: tuple[str, ...] = ("europe-west4-b",)
    """Zones with GPU capacity."""
    spot_nodes: int | None = None
    """Spot GPU nodes that may exist at the same time; likewise the two below."""
    flex_start_nodes: int | None = None
    on_demand_nodes: int | None = None
    quota_nodes: int | None = None
    """GPU nodes that the project's quota allows, without reserved ones."""
    ssd_gib: int | None = None
    """SSD Persistent Disk that the project's quota allows for GPU nodes, beside Autopilot's own nodes."""
    _reservations: dict[str, ReservationStock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def for_settings(cls, settings: Settings) -> Stock:
        """Unlimited capacity in the stack's zones, and its reservation."""
        zones = tuple(sorted({*(f"{settings.region}-{letter}" for letter in "abc"), *settings.zones}))
        stock = cls(zones=zones, gpu_zones=settings.zones)
        capacity, zone = settings.capacity, settings.zones[0]
        if isinstance(capacity, Reservation):
            nodes = settings.nodes if capacity.nodes is None else capacity.nodes
            stock.reserve(capacity.name, nodes=nodes, zone=zone, project=capacity.project)
        elif isinstance(capacity, Calendar):
            stock.reserve(capacity.reservation, nodes=settings.nodes, zone=zone)
        elif isinstance(capacity, ComputeClassMode) and capacity.reservation is not None:
            reserved = capacity.reservation
            stock.reserve(reserved.name, nodes=settings.nodes, zone=zone, project=reserved.project)
        return stock

    # Changed by drills

    @property
    def reservations(self) -> dict[str, ReservationStock]:
        """Copy of the reservations, by name."""
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
        """Add or replace a reservation."""
        made = ReservationStock(nodes=nodes, zone=zone, active=active, project=project)
        with self._lock:
            self._reservations[name] = made

    def activate(self, name: str) -> None:
        """Begin a reservation's window. Raises KeyError if it does not exist."""
        with self._lock:
            self._reservations[name] = replace(self._reservations[name], active=True)

    def resize(self, name: str, nodes: int) -> None:
        """Another number of nodes in a reservation. Raises KeyError if it does not exist."""
        with self._lock:
            self._reservations[name] = replace(self._reservations[name], nodes=nodes)

    def restore(self, other: Stock) -> None:
        """Copy another stock."""
        with self._lock:
            self.zones, self.gpu_zones = other.zones, other.gpu_zones
            self.spot_nodes, self.flex_start_nodes = other.spot_nodes, other.flex_start_nodes
            self.on_demand_nodes, self.quota_nodes = other.on_demand_nodes, other.quota_nodes
            self.ssd_gib, self._reservations = other.ssd_gib, other.reservations

    # Used by the provisioner

    def refusal(
        self, pool: Pool, in_use: Mapping[Pool, int], *, zone: str = "", project: str | None = None
    ) -> Refusal | None:
        """Why the pool has no capacity for another node; None if it has."""
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
