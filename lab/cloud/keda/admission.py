"""Refusals and warnings of KEDA's webhook. Source: kedacore/keda v2.20.2, apis/keda/v1alpha1/scaledobject_webhook.go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from lab.control_plane.api import Manifest

_LONGEST_NAME: Final = 63


def hpa_name(scaled_object: Manifest) -> str:
    """Name of the HPA that KEDA creates."""
    return str(_hpa_config(scaled_object).get("name") or f"keda-hpa-{scaled_object['metadata']['name']}")


def _hpa_config(scaled_object: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = (scaled_object["spec"].get("advanced") or {}).get("horizontalPodAutoscalerConfig") or {}
    return found


def behavior(scaled_object: Manifest) -> Manifest | None:
    """The ScaledObject's HPA behavior, if any."""
    return _hpa_config(scaled_object).get("behavior")


def bounds(scaled_object: Manifest) -> tuple[int, int]:
    """Minimum and maximum of the HPA; KEDA handles a minimum of zero itself."""
    spec = scaled_object["spec"]
    return spec.get("minReplicaCount") or 1, spec.get("maxReplicaCount", 100)


def refusal(manifest: Manifest, others: Iterable[Manifest], hpas: Iterable[Manifest]) -> str:
    """Why KEDA's webhook refuses a ScaledObject; empty if it accepts it. `others`, `hpas`: of its namespace."""
    spec, name = manifest["spec"], manifest["metadata"]["name"]
    least, most = bounds(manifest)
    if least > most:
        return f"MinReplicaCount={least} must be less than MaxReplicaCount={most}"
    hpa = hpa_name(manifest)
    if len(hpa) > _LONGEST_NAME:
        return f'HPA name "{hpa}" derived from scaledobject is {len(hpa)} characters long; must be no more than 63'
    fallback = spec.get("fallback")
    if fallback and min(fallback["failureThreshold"], fallback["replicas"]) < 0:
        return f"FailureThreshold={fallback['failureThreshold']} & Replicas={fallback['replicas']} must both be greater than or equal to 0"
    target, kind = spec["scaleTargetRef"]["name"], _kind(spec["scaleTargetRef"])
    for other in others:
        reference = other["spec"]["scaleTargetRef"]
        if other["metadata"]["name"] != name and (reference["name"], _kind(reference)) == (target, kind):
            return f"the workload '{target}' of type '{kind}' is already managed by the ScaledObject '{other['metadata']['name']}'"
    for other in hpas:
        reference, owners = other["spec"]["scaleTargetRef"], other["metadata"].get("ownerReferences") or ()
        owned = any(owner["kind"] == "ScaledObject" and owner["name"] == name for owner in owners)
        if not owned and (reference["name"], _kind(reference)) == (target, kind):
            return (
                f"the workload '{target}' of type '{kind}' is already managed by the hpa '{other['metadata']['name']}'"
            )
    return ""


def warnings(manifest: Manifest) -> list[str]:
    """The webhook's warnings for an accepted ScaledObject."""
    spec, found = manifest["spec"], []
    if spec.get("minReplicaCount", 0) > 0 and spec.get("idleReplicaCount") != 0:
        if "pollingInterval" in spec and not any(trigger.get("useCachedMetrics") for trigger in spec["triggers"]):
            found.append(
                "PollingInterval is configured but is not relevant. PollingInterval is only relevant when minReplicaCount = 0 "
                "or idleReplicaCount = 0 or useCachedMetrics is enabled"
            )
        if "cooldownPeriod" in spec:
            found.append(
                "CooldownPeriod is configured but is not relevant. CooldownPeriod is only relevant when minReplicaCount = 0 "
                "or idleReplicaCount = 0"
            )
    return found


def _kind(reference: Manifest) -> str:
    return f"{reference.get('apiVersion', 'apps/v1')}.{reference.get('kind', 'Deployment')}"
