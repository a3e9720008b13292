"""Cases of autoscalers that ask a stranger, and of those that cannot scale."""

from __future__ import annotations

from typing import Final

from tests.policy.case import (
    HERE,
    Edit,
    append,
    change,
    delete,
    drop,
    new,
    of_resource,
    put,
    set_at,
    sound,
)

_SCALER, _AUTHENTICATION = "autoscaling-scaled-object", "autoscaling-authentication"
_LOAD: Final = "spec.triggers.0"
_ADDRESS: Final = f"{_LOAD}.metadata.serverAddress"
_PROMETHEUS: Final = "/v1/projects/offline-preview/location/global/prometheus"
_OWN: Final = "http://prometheus.keda.svc:9090"
_BEHAVIOR: Final = "spec.advanced.horizontalPodAutoscalerConfig.behavior"

_ADDRESSES = {
    "a stranger": f"https://prometheus.example{_PROMETHEUS}",
    "in clear text": f"http://monitoring.googleapis.com{_PROMETHEUS}",
    "a user before the host": f"https://monitoring.googleapis.com@prometheus.example{_PROMETHEUS}",
    "a longer host": f"https://monitoring.googleapis.com.example{_PROMETHEUS}",
    "another letter": f"https://monitoring.googleapls.com{_PROMETHEUS}",
    "another port": f"https://monitoring.googleapis.com:8443{_PROMETHEUS}",
    "another project": "https://monitoring.googleapis.com/v1/projects/other/location/global/prometheus",
    "another path": "https://monitoring.googleapis.com/v1/projects/offline-preview/../x",
    "an address of numbers": "http://203.0.113.7:9090",
    "a Service that gets the token": "http://prometheus.monitoring.svc:9090",
}


def _also(kind: str, **metadata: str) -> Edit:
    return append(_SCALER, "spec.triggers", {"type": kind, "metadata": metadata})


def _counts(selector: str) -> Edit:
    """An autoscaler that counts other pods than a batch's."""
    return put(_SCALER, f"{_LOAD}.metadata.podSelector", value=selector)


_ELSEWHERE = {
    "certificates not checked": put(_SCALER, f"{_LOAD}.metadata.unsafeSsl", value="true"),
    "a header": put(_SCALER, f"{_LOAD}.metadata.customHeaders", value="X-To=example"),
    "no identity": drop(_SCALER, f"{_LOAD}.authenticationRef"),
    "an identity that is not there": put(_SCALER, f"{_LOAD}.authenticationRef.name", value="other"),
    "its identity is gone": delete(_AUTHENTICATION),
    "an identity of nothing": put(_AUTHENTICATION, "spec", value={}),
    "this pod": put(_SCALER, _ADDRESS, value="http://localhost:9090"),
    "a Job's trigger": new(
        "a-scaled-job",
        "kubernetes:keda.sh/v1alpha1:ScaledJob",
        {
            "metadata": {"name": "a", "namespace": HERE},
            "spec": {"triggers": [{"type": "external", "metadata": {"scalerAddress": "a.b:1"}}]},
        },
    ),
    "an address under another key": _also("metrics-api", url="http://one.keda:80", authUrl="https://tokens.example"),
    "a URL": _also("metrics-api", url="https://prometheus.example/load"),
    "a domain like a Service": _also("external", scalerAddress="scaler.example:9090"),
    "one that pushes": _also("external-push", scalerAddress="scaler.prometheus.example:9090"),
    "an address from a variable": _also("prometheus", serverAddressFromEnv="ADDRESS"),
}
_STUCK = {
    "paused": put(_SCALER, "metadata.annotations", "autoscaling.keda.sh/paused", value="true"),
    "paused at its maximum": put(_SCALER, "metadata.annotations", "autoscaling.keda.sh/paused-replicas", value="8"),
    "never down": put(_SCALER, f"{_BEHAVIOR}.scaleDown.selectPolicy", value="Disabled"),
    "never up": put(_SCALER, f"{_BEHAVIOR}.scaleUp.selectPolicy", value="Disabled"),
    "one size": put(_SCALER, "spec.minReplicaCount", value=8),
    "a constant": put(_SCALER, f"{_LOAD}.metadata.query", value="vector(1)"),
    "times zero": change(
        _SCALER, lambda props: set_at(props, f"{_LOAD}.metadata.query", value="sum(vllm:num_requests_running) * 0")
    ),
    "a formula of its own": put(_SCALER, "spec.advanced.scalingModifiers", value={"formula": "1", "target": "1"}),
    "more than a replica takes": put(_SCALER, f"{_LOAD}.metadata.threshold", value="1000000"),
    "a replica for every request": put(_SCALER, f"{_LOAD}.metadata.threshold", value="0.001"),
    "a fallback that never comes": put(_SCALER, "spec.fallback.failureThreshold", value=1_000_000),
    "asked once a day": put(_SCALER, "spec.pollingInterval", value=86_400),
    "up after an hour": put(_SCALER, f"{_BEHAVIOR}.scaleUp.stabilizationWindowSeconds", value=3600),
    "no target": put(_SCALER, "spec.scaleTargetRef.name", value="other"),
    "another kind of target": put(_SCALER, "spec.scaleTargetRef.kind", value="StatefulSet"),
}


CASES = (
    *(
        of_resource("scaler-asks-elsewhere", what, put(_SCALER, _ADDRESS, value=address), stack="prod")
        for what, address in _ADDRESSES.items()
    ),
    *(of_resource("scaler-asks-elsewhere", what, edit, stack="prod") for what, edit in _ELSEWHERE.items()),
    *(of_resource("scaler-stuck", what, edit, stack="prod") for what, edit in _STUCK.items()),
    *(
        of_resource("scaler-stuck", f"it counts its own servers: {selector}", _counts(selector), stack="batch")
        for selector in ("", "app", "app=qwen35-server", "app in (batch, qwen35-server)", "app!=batch")
    ),
    sound(
        "scaler-asks-elsewhere",
        "named in the policy config",
        put(_SCALER, _ADDRESS, value="https://thanos.example"),
        stack="prod",
        addresses=["https://thanos.example"],
    ),
    sound(
        "scaler-asks-elsewhere",
        "a Service of the cluster",
        _also("prometheus", serverAddress=_OWN),
        stack="prod",
    ),
    sound(
        "scaler-asks-elsewhere",
        "a Service and its namespace",
        _also("external", scalerAddress="one.keda:9090"),
        stack="prod",
    ),
    sound("scaler-asks-elsewhere", "the cluster itself", _also("cpu", value="60"), stack="prod"),
    sound(
        "scaler-stuck",
        "paused at 0",
        put(_SCALER, "metadata.annotations", "autoscaling.keda.sh/paused-replicas", value="0"),
        stack="prod",
    ),
)
