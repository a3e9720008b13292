"""What a gateway in front of model servers needs, and what its endpoint picker bears."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from facts.sizing import EPP_CONNECTIONS, EPP_CPU
from settings.rules.lesson import Broken, Lesson, Limits, Setting, Told
from settings.rules.words import CONCURRENCY_ANNOTATION


class Picker(Protocol):
    """An endpoint picker, with what is declared of the servers that it chooses from."""

    @property
    def cpu(self) -> float | None:
        """CPUs that it may use; None where nobody says."""

    @property
    def replicas(self) -> int:
        """How many there are, standing by or not."""

    @property
    def connections(self) -> int:
        """Requests in flight that the servers behind it are declared to carry, together."""


def _undersized(picker: Picker, limits: Limits) -> Iterator[Broken]:
    if picker.cpu is None or picker.cpu >= limits["cpu"] or picker.connections < limits["connections"]:
        return
    yield Broken(
        option="epp-cpu",
        value=picker.cpu,
        allowed=f"{limits['cpu']:g} or more",
        because=f"{picker.connections:,} connections are declared",
        changes={"epp-cpu": limits["cpu"]},
    )


def _standby(picker: Picker, _: Limits) -> Iterator[Broken]:
    if picker.replicas > 1:
        yield Broken(
            option="epp-replicas",
            value=picker.replicas,
            allowed="1, or 2 to 3 where standby is wanted",
            changes={"epp-replicas": 1},
        )


EPP_UNDERSIZED: Final[Lesson[Picker]] = Lesson(
    name="epp-undersized",
    subject="network",
    statement="The endpoint picker has the CPU for the connections that its replicas are declared to carry.",
    evidence=f"at its default of half a CPU the picker crashed under {EPP_CONNECTIONS:,} connections; with {EPP_CPU} it did not. "
    "Source: the article, ClusterIP vs Inference Gateway",
    level_reason="with the picker gone, requests queue up where they happen to land. Connections are replicas x the annotation "
    f"{CONCURRENCY_ANNOTATION}; without it the rule is silent",
    fix=f"{EPP_CPU} CPU and 16 GiB of memory for the endpoint picker, requests and limits",
    level="mandatory",
    severity="high",
    settings=(
        Setting(
            name="cpu",
            type="number",
            default=EPP_CPU,
            unit="vCPU",
            why="What the picker needs at those connections",
        ),
        Setting(
            name="connections",
            type="number",
            default=EPP_CONNECTIONS,
            why="Connections from which on the picker needs that CPU",
        ),
    ),
    judge=_undersized,
)
EPP_REPLICAS: Final[Lesson[Picker]] = Lesson(
    name="epp-replicas-are-standby",
    subject="network",
    statement="Replicas of the endpoint picker are standby, and nobody counts on them for throughput.",
    evidence="one picker is active by leader election whatever the number. Source: the article; chart v1.4.0, "
    "--ha-enable-leader-election",
    level_reason="as standby it is a choice",
    fix="1 replica and more CPU for throughput; 2 to 3 for availability alone",
    level="advisory",
    severity="low",
    judge=_standby,
)
PROXY_ONLY_SUBNET: Final = Told(
    name="gateway-without-proxy-only-subnet",
    subject="network",
    statement="A regional GKE Gateway has an active proxy-only subnet in its network and region.",
    evidence="without the subnet the Gateway stays at PROGRAMMED False for ever, without a message. Source: Google Cloud, "
    "proxy-only subnets; the article",
    level_reason="no request ever arrives. Silent on a stack without subnets: it cannot see its network",
    fix="a Subnetwork with purpose REGIONAL_MANAGED_PROXY, role ACTIVE and a /23",
    level="mandatory",
    severity="high",
)
