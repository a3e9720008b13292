"""Values of the `inferencepool` chart v1.4.0: its defaults, merged as Helm merges, with everything unknown refused.

Source: gateway-api-inference-extension v1.4.0, config/charts/inferencepool/values.yaml and the templates that read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rehearsal.results import RehearsalError

CHART: Final = "oci://registry.k8s.io/gateway-api-inference-extension/charts/inferencepool"
VERSION: Final = "v1.4.0"

ANY: Final = object()
"""Marks a value that is the user's own to shape: labels, flags, Kubernetes' own structures."""

DEFAULTS: Final[Mapping[str, Any]] = {
    "inferenceExtension": {
        "replicas": 1,
        "image": {
            "name": "epp",
            "hub": "registry.k8s.io/gateway-api-inference-extension",
            "tag": VERSION,
            "pullPolicy": "Always",
        },
        "extProcPort": 9002,
        "failureMode": "FailOpen",
        "env": [],
        "pluginsConfigFile": "default-plugins.yaml",
        "extraContainerPorts": [],
        "extraServicePorts": [],
        "flags": {"v": 1},
        "affinity": {},
        "tolerations": [],
        "resources": {"requests": {"cpu": "4", "memory": "8Gi"}, "limits": {"memory": "16Gi"}},
        "sidecar": {"enabled": False},
        "monitoring": {
            "interval": "10s",
            "prometheus": {
                "enabled": False,
                "auth": {"enabled": True, "secretName": "inference-gateway-sa-metrics-reader-secret"},
                "extraLabels": {},
            },
        },
        "tracing": {"enabled": False},
        "latencyPredictor": {"enabled": False},
    },
    "inferencePool": {
        "targetPorts": [{"number": 8000}],
        "modelServerType": "vllm",
        "apiVersion": "inference.networking.k8s.io/v1",
        "targetPortNumber": 8000,
    },
    "provider": {"name": "none"},
    "experimentalHttpRoute": {"enabled": False},
}

# What else the templates read, or what is free in shape.
_MORE: Final[Mapping[str, Any]] = {
    "inferenceExtension": {
        "metricsPort": ANY,
        "sidecar": ANY,
        "tracing": {"otelExporterEndpoint": ANY, "sampling": ANY},
        "latencyPredictor": ANY,
        "pluginsCustomConfig": ANY,
        "volumes": ANY,
        "volumeMounts": ANY,
        "flags": ANY,
        "affinity": ANY,
        "resources": ANY,
        "monitoring": {"prometheus": {"extraLabels": ANY}},
    },
    "inferencePool": {"modelServers": {"matchLabels": ANY}},
    "provider": {"gke": {"autopilot": ANY}, "istio": ANY},
    "experimentalHttpRoute": {"inferenceGatewayName": ANY, "baseModel": ANY},
}

NOT_PLAYED: Final = {
    # The template puts these ports beside the container instead of into it.
    "inferenceExtension.extraContainerPorts": ([],),
    "inferenceExtension.sidecar.enabled": (False,),
    "inferenceExtension.tracing.enabled": (False,),
    "inferenceExtension.latencyPredictor.enabled": (False,),
    "inferencePool.apiVersion": ("inference.networking.k8s.io/v1",),
    "inferencePool.modelServerType": ("vllm",),
    "provider.name": ("none", "gke"),
    "experimentalHttpRoute.enabled": (False,),
}
"""Values with which the chart makes objects that the rehearsal does not know, and those with which it does not."""


def merged(given: Mapping[str, Any]) -> dict[str, Any]:
    """The whole of the values. Raises RehearsalError for a key the chart does not read and for what is not played."""
    unknown = sorted(_unknown(given, _known(DEFAULTS, _MORE), ""))
    if unknown:
        raise RehearsalError(
            f"chart inferencepool {VERSION} reads no value {', '.join(unknown)}: Helm would take it without a word and do "
            "nothing. Correct the key in workloads/gateway_values.py, or take it out"
        )
    whole: dict[str, Any] = _merge(DEFAULTS, given)
    for path, played in NOT_PLAYED.items():
        value = _at(whole, path)
        if value not in played:
            raise RehearsalError(
                f"the chart is stood in for, and {path}: {_text(value)} is not among what the stand-in plays "
                f"({', '.join(_text(one) for one in played)})"
            )
    if not _at(whole, "inferencePool.modelServers.matchLabels"):
        raise RehearsalError(
            f"chart inferencepool {VERSION} needs inferencePool.modelServers.matchLabels: which pods form the pool"
        )
    return whole


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value or "none")


def _at(values: Mapping[str, Any], path: str) -> Any:
    found: Any = values
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _known(defaults: Any, more: Any) -> Any:
    """Keys that may be given: a map where keys matter, ANY where they do not."""
    if more is ANY or not (isinstance(defaults, Mapping) or isinstance(more, Mapping)):
        return ANY
    defaults, more = defaults or {}, more or {}
    return {key: _known(defaults.get(key), more.get(key)) for key in defaults.keys() | more.keys()}


def _unknown(given: Any, known: Any, path: str) -> Iterator[str]:
    if known is ANY or not isinstance(given, Mapping):
        return
    for key, value in given.items():
        here = f"{path}.{key}" if path else str(key)
        if key in known:
            yield from _unknown(value, known[key], here)
        else:
            yield here


def _merge(base: Any, over: Any) -> Any:
    """As Helm: maps key by key, null takes a default away, everything else replaces."""
    if not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        return over
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(base[key], value) if key in base else value
    return result
