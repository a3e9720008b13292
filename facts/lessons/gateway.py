"""Rules for the gateway and its endpoint picker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from facts.lessons.lesson import Breach, Lesson, Limits, Setting
from facts.lessons.words import CONCURRENCY_ANNOTATION
from facts.sizing import EPP_CONNECTIONS, EPP_CPU


class Picker(Protocol):
    """An endpoint picker with the declared load of its servers."""

    @property
    def cpu(self) -> float | None:
        """CPU limit; None if unknown."""

    @property
    def replicas(self) -> int:
        """Number of pickers, including standby."""

    @property
    def connections(self) -> int:
        """Declared requests in flight of all servers behind it."""


def _undersized(picker: Picker, limits: Limits) -> Iterator[Breach]:
    if picker.cpu is None or picker.cpu >= limits["cpu"] or picker.connections < limits["connections"]:
        return
    yield Breach(
        option="epp-cpu",
        value=picker.cpu,
        allowed=f"{limits['cpu']:g} or more",
        because=f"{picker.connections:,} connections are declared",
        changes={"epp-cpu": limits["cpu"]},
    )


def _standby(picker: Picker, _: Limits) -> Iterator[Breach]:
    if picker.replicas > 1:
        yield Breach(
            option="epp-replicas",
            value=picker.replicas,
            allowed="1, or 2 to 3 for standby",
            changes={"epp-replicas": 1},
        )


def _no_subnet(has_subnet: bool, _: Limits) -> Iterator[Breach]:
    if not has_subnet:
        yield Breach(
            option="proxy-only-subnet",
            value=False,
            allowed="true (or left out) with the gateway",
            changes={"proxy-only-subnet": True},
        )


EPP_UNDERSIZED: Final[Lesson[Picker]] = Lesson(
    name="epp-undersized",
    subject="network",
    statement="The endpoint picker has enough CPU for the declared connections of its replicas.",
    evidence=f"with its default of half a CPU the picker crashed at {EPP_CONNECTIONS:,} connections; with {EPP_CPU} it did not. "
    "Source: the article, ClusterIP vs Inference Gateway",
    level_reason="without the picker, requests are no longer balanced. Connections are replicas x the annotation "
    f"{CONCURRENCY_ANNOTATION}; without it the rule does not apply",
    fix=f"{EPP_CPU} CPU and 16 GiB of memory for the endpoint picker, requests and limits",
    level="mandatory",
    severity="high",
    settings=(
        Setting(
            name="cpu",
            type="number",
            default=EPP_CPU,
            unit="vCPU",
            why="CPU that the picker needs for those connections",
        ),
        Setting(
            name="connections",
            type="number",
            default=EPP_CONNECTIONS,
            why="Connections from which the picker needs that CPU",
        ),
    ),
    judge=_undersized,
)
EPP_REPLICAS: Final[Lesson[Picker]] = Lesson(
    name="epp-replicas-are-standby",
    subject="network",
    statement="Additional replicas of the endpoint picker are standby and do not add throughput.",
    evidence="leader election makes only one picker active. Source: the article; chart v1.4.0, --ha-enable-leader-election",
    level_reason="standby is a valid choice",
    fix="1 replica and more CPU for throughput; 2 to 3 for availability only",
    level="advisory",
    severity="low",
    judge=_standby,
)
PROXY_ONLY_SUBNET: Final[Lesson[bool]] = Lesson(
    name="gateway-without-proxy-only-subnet",
    subject="network",
    statement="A regional GKE Gateway has an active proxy-only subnet in its network and region.",
    evidence="without the subnet the Gateway stays at PROGRAMMED False without a message. Source: Google Cloud, "
    "proxy-only subnets; the article",
    level_reason="no request arrives. The rule does not apply to a stack without subnets, whose network it cannot check",
    fix="a Subnetwork with purpose REGIONAL_MANAGED_PROXY, role ACTIVE and a /23",
    level="mandatory",
    severity="high",
    judge=_no_subnet,
)
"""Judges whether the gateway's network has an active one."""
