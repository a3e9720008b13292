"""A pod's requirements of its node: resources, selectors, tolerations, zones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any, Final

from lab.control_plane.api import Manifest

GIB: Final = 2**30
GPU_RESOURCE: Final = "nvidia.com/gpu"
_QUANTITY: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
_UNITS: Final = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15} | {
    f"{letter}i": 2.0 ** (10 * power) for power, letter in enumerate("KMGTP", start=1)
}


@lru_cache(maxsize=4096)
def _parsed(text: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a supported quantity")
    return float(match[1]) * _UNITS[match[2] or ""]


def quantity(value: Any) -> float:
    """A Kubernetes quantity ("500m", "64Gi", 8) in its base unit; 0 for None."""
    return 0.0 if value is None else _parsed(str(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Resources of a node or requests of a pod."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    ephemeral_bytes: int = 0
    gpus: int = 0
    pods: int = 1

    def _each(self) -> tuple[int, int, int, int, int]:
        return self.cpu_milli, self.memory_bytes, self.ephemeral_bytes, self.gpus, self.pods

    def minus(self, other: Amounts, times: int = 1) -> Amounts:
        """The difference to `times` others; may be negative."""
        return Amounts(
            cpu_milli=self.cpu_milli - times * other.cpu_milli,
            memory_bytes=self.memory_bytes - times * other.memory_bytes,
            ephemeral_bytes=self.ephemeral_bytes - times * other.ephemeral_bytes,
            gpus=self.gpus - times * other.gpus,
            pods=self.pods - times * other.pods,
        )

    def times_in(self, room: Amounts) -> int:
        """How many times these amounts fit."""
        return max(0, min(have // need for have, need in zip(room._each(), self._each(), strict=True) if need > 0))

    def as_resources(self) -> dict[str, str]:
        """In the format of a node's status."""
        resources = {
            "cpu": f"{self.cpu_milli}m",
            "memory": f"{self.memory_bytes // 1024}Ki",
            "ephemeral-storage": str(self.ephemeral_bytes),
            "pods": str(self.pods),
        }
        return {**resources, GPU_RESOURCE: str(self.gpus)} if self.gpus else resources

    @classmethod
    def of_resources(cls, resources: Mapping[str, Any], *, pods: int | None = None) -> Amounts:
        """From a manifest's `requests` or a node's `allocatable`."""
        return cls(
            cpu_milli=ceil(quantity(resources.get("cpu")) * 1000),
            memory_bytes=ceil(quantity(resources.get("memory"))),
            ephemeral_bytes=ceil(quantity(resources.get("ephemeral-storage"))),
            gpus=int(quantity(resources.get(GPU_RESOURCE))),
            pods=int(quantity(resources.get("pods"))) if pods is None else pods,
        )


Expression = tuple[str, str, tuple[str, ...]]
"""A node affinity's key, operator and values."""
Toleration = tuple[str, str, str, str]
"""Key, operator, value and effect, each "" where left out."""
Taint = tuple[str, str, str]
"""Key, value and effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNeeds:
    """A pod's requirements of its node; pods of one Deployment have equal ones."""

    amounts: Amounts
    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[Expression, ...], ...] = ()
    """Alternative node affinity terms; empty without node affinity."""
    tolerations: tuple[Toleration, ...] = ()
    volume_zones: frozenset[str] | None = None
    """Zones shared by the pod's volumes; None if unrestricted."""

    def wanted(self, key: str) -> str | None:
        """The only value that a label may have, by selector or by all affinity terms; None if there are several."""
        for name, value in self.selector:
            if name == key:
                return value
        named = {
            values[0] if operator == "In" and len(values) == 1 else None
            for term in self.affinity
            for name, operator, values in term
            if name == key
        }
        everywhere = all(any(name == key for name, _, _ in term) for term in self.affinity)
        return named.pop() if everywhere and len(named) == 1 else None

    def unmet(self, labels: Mapping[str, str]) -> str:
        """Text of the first requirement that these labels do not meet; empty if they meet all."""
        for key, value in self.selector:
            if labels.get(key) != value:
                return f"nodeSelector {key}: {value}"
        if self.affinity and not any(all(_holds(one, labels) for one in term) for term in self.affinity):
            return f"node affinity on {', '.join(sorted({key for term in self.affinity for key, _, _ in term}))}"
        zone = labels.get("topology.kubernetes.io/zone", "")
        if self.volume_zones is not None and zone not in self.volume_zones:
            return f"its volume's zone, {' or '.join(sorted(self.volume_zones)) or 'none that all its volumes share'}"
        return ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether the pod may run on a node with this taint."""
        key, value, effect = taint
        return any(
            name in ("", key)
            and (only_effect in ("", effect))
            and (operator == "Exists" or (name == key and wanted == value))
            for name, operator, wanted, only_effect in self.tolerations
        )

    def untolerated(self, taints: Iterable[Taint]) -> Taint | None:
        """The first taint that the pod does not tolerate."""
        return next((taint for taint in taints if taint[2] != "PreferNoSchedule" and not self.tolerates(taint)), None)


def needs_of(pod: Manifest) -> PodNeeds:
    """The pod's requirements, except those of its volumes."""
    spec = pod["spec"]
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    return PodNeeds(
        amounts=_requests(spec),
        selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
        affinity=tuple(
            tuple(
                (expression["key"], expression["operator"], tuple(expression.get("values") or ()))
                for expression in term["matchExpressions"]
            )
            for term in required.get("nodeSelectorTerms") or ()
            if term.get("matchExpressions")
        ),
        tolerations=tuple(
            (
                toleration.get("key") or "",
                toleration.get("operator") or "Equal",
                toleration.get("value") or "",
                toleration.get("effect") or "",
            )
            for toleration in spec.get("tolerations") or ()
        ),
    )


def _requests(spec: Manifest) -> Amounts:
    """The containers' sum, or the largest init container's requests if higher. Sidecars (restartable init containers) add to
    all that follow. Source: Kubernetes docs, "Sidecar Containers", resource sharing.
    """

    def amounts(container: Manifest) -> Amounts:
        resources = container.get("resources") or {}
        return Amounts.of_resources({**(resources.get("limits") or {}), **(resources.get("requests") or {})}, pods=0)

    running, beside = Amounts(pods=1), Amounts(pods=0)
    peaks: list[Amounts] = []
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            beside = beside.minus(amounts(container), -1)
        else:
            peaks.append(beside.minus(amounts(container), -1))
    for container in spec["containers"]:
        running = running.minus(amounts(container), -1)
    running = running.minus(beside, -1)
    for peak in peaks:
        running = Amounts(
            cpu_milli=max(running.cpu_milli, peak.cpu_milli),
            memory_bytes=max(running.memory_bytes, peak.memory_bytes),
            ephemeral_bytes=max(running.ephemeral_bytes, peak.ephemeral_bytes),
            gpus=max(running.gpus, peak.gpus),
            pods=1,
        )
    return running


def _holds(expression: Expression, labels: Mapping[str, str]) -> bool:
    key, operator, values = expression
    there = key in labels
    match operator:
        case "In":
            return there and labels[key] in values
        case "NotIn":
            return not there or labels[key] not in values
        case "Exists":
            return there
        case "DoesNotExist":
            return not there
        case "Gt":
            return there and labels[key].isdigit() and int(labels[key]) > int(values[0])
        case _:
            return there and labels[key].isdigit() and int(labels[key]) < int(values[0])
