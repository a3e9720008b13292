"""What pods ask of a node, and whether one waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from facts import quantities

GPU: Final = "nvidia.com/gpu"


def quantity(value: Any) -> float:
    """A Kubernetes quantity in its base unit. Raises ValueError."""
    found = quantities.quantity(value)
    if found is None:
        raise ValueError(f"{value!r} is not a supported quantity")
    return found


def requests(pod: Mapping[str, Any]) -> dict[str, float]:
    """Sum of its containers' requests; of sidecars too, and of other init containers the largest where that is more."""
    spec = pod["spec"]
    initial = spec.get("initContainers") or ()
    total: dict[str, float] = {}
    for container in (*spec["containers"], *(one for one in initial if one.get("restartPolicy") == "Always")):
        for name, amount in _asked(container).items():
            total[name] = total.get(name, 0.0) + amount
    for container in initial:
        for name, amount in _asked(container).items():
            total[name] = max(total.get(name, 0.0), amount)
    return total


def is_stuck(pod: Mapping[str, Any]) -> bool:
    """Whether the scheduler has said that no node takes it."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return not pod["spec"].get("nodeName") and any(
        one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions
    )


def wanted_labels(pod: Mapping[str, Any]) -> dict[str, str]:
    """Node labels that a pod asks for: of its selector, and of the first term of its required affinity."""
    spec: Mapping[str, Any] = pod["spec"]
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    terms = required.get("nodeSelectorTerms") or [{}]
    return {**dict(_expressed(terms[0].get("matchExpressions") or ())), **(spec.get("nodeSelector") or {})}


def _expressed(expressions: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for one in expressions:
        if one["operator"] in ("In", "Exists"):
            yield one["key"], (one.get("values") or ["true"])[0]


def _asked(container: Mapping[str, Any]) -> dict[str, float]:
    asked = (container.get("resources") or {}).get("requests") or {}
    return {name: quantity(amount) for name, amount in asked.items()}
