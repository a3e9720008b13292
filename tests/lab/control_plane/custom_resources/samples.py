"""Objects of the kinds that have a definition of ours: good ones, and each with one thing wrong."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

Spec = dict[str, Any]

POOL = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool"}
GKE = "networking.gke.io/v1"
MONITORING = "monitoring.googleapis.com/v1"
SECRET = '[{"resourceName": "projects/p/secrets/token/versions/latest", "path": "token"}]'
RUNG: Spec = {"machineType": "a4-highgpu-8g", "gpu": {"type": "nvidia-b200", "count": 8}}

GOOD: dict[str, tuple[str, Spec]] = {
    "HealthCheckPolicy": (
        GKE,
        {
            "targetRef": POOL,
            "default": {
                "checkIntervalSec": 10,
                "timeoutSec": 10,
                "healthyThreshold": 1,
                "unhealthyThreshold": 3,
                "logConfig": {"enabled": True},
                "config": {
                    "type": "HTTP",
                    "httpHealthCheck": {
                        "requestPath": "/health",
                        "port": 8000,
                        "portSpecification": "USE_FIXED_PORT",
                    },
                },
            },
        },
    ),
    "GCPBackendPolicy": (
        GKE,
        {
            "targetRef": POOL,
            "default": {
                "timeoutSec": 3600,
                "connectionDraining": {"drainingTimeoutSec": 600},
                "logging": {"enabled": True, "sampleRate": 10_000},
                "sessionAffinity": {"type": "GENERATED_COOKIE", "cookieTtlSec": 60},
            },
        },
    ),
    "PodMonitoring": (
        MONITORING,
        {
            "selector": {"matchLabels": {"app": "server"}},
            "endpoints": [
                {
                    "port": "http",
                    "path": "/metrics",
                    "interval": "15s",
                    "timeout": "10s",
                    "metricRelabeling": [{"action": "keep", "sourceLabels": ["__name__"], "regex": "vllm:.+"}],
                }
            ],
            "targetLabels": {"metadata": ["pod", "node"], "fromPod": [{"from": "app", "to": "app"}]},
        },
    ),
    "Rules": (
        MONITORING,
        {
            "groups": [
                {
                    "name": "fleet",
                    "interval": "30s",
                    "rules": [
                        {"record": "fleet:tokens:rate", "expr": "sum(x)", "labels": {"app": "server"}},
                        {"alert": "NoReplica", "expr": "up == 0", "for": "5m", "annotations": {"summary": "gone"}},
                    ],
                }
            ]
        },
    ),
    "ComputeClass": (
        "cloud.google.com/v1",
        {
            "nodePoolAutoCreation": {"enabled": True},
            "nodePoolConfig": {"imageStreaming": {"enabled": True}},
            "whenUnsatisfiable": "DoNotScaleUp",
            "priorities": [
                {
                    **RUNG,
                    "reservations": {
                        "affinity": "Specific",
                        "specific": [{"name": "block", "zones": ["europe-west4-b"]}],
                    },
                },
                {
                    **RUNG,
                    "flexStart": {"enabled": True, "nodeRecycling": {"leadTimeSeconds": 3600}},
                    "maxRunDurationSeconds": 604_800,
                    "capacityCheckWaitTimeSeconds": 900,
                },
                {
                    **RUNG,
                    "spot": True,
                    "location": {"zones": ["europe-west4-b"], "locationPolicy": "ANY"},
                    "nodeSystemConfig": {"kubeletConfig": {"shutdownGracePeriodSeconds": 120}},
                },
            ],
        },
    ),
    "SecretProviderClass": (
        "secrets-store.csi.x-k8s.io/v1",
        {"provider": "gke", "parameters": {"secrets": SECRET}},
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A good object with one value changed."""

    kind: str
    path: tuple[str | int, ...]
    value: Any
    """None takes the field out."""
    says: str
    """Part of what the API server answers under our definition."""
    real_refuses: bool = True
    """Whether the real definition refuses it too. Where it does not, ours says what GKE says later, or never."""

    @property
    def name(self) -> str:
        """For a test's name."""
        return f"{self.kind}-{'.'.join(map(str, self.path[-2:]))}-{self.value}"


def good(kind: str) -> dict[str, Any]:
    """A good object."""
    version, spec = GOOD[kind]
    metadata = {"name": "sample"} | ({} if kind == "ComputeClass" else {"namespace": "default"})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": copy.deepcopy(spec)}


def changed(wrong: Wrong) -> dict[str, Any]:
    """The good object with the change."""
    made = good(wrong.kind)
    place: Any = made["spec"]
    for key in wrong.path[:-1]:
        place = place[key]
    if wrong.value is None:
        del place[wrong.path[-1]]
    else:
        place[wrong.path[-1]] = wrong.value
    return made


def _health(*path: str) -> tuple[str, ...]:
    return ("default", *path)


def _http(key: str) -> tuple[str, ...]:
    return ("default", "config", "httpHealthCheck", key)


def _rung(number: int, *path: str | int) -> tuple[str | int, ...]:
    return ("priorities", number, *path)


def _endpoint(*path: str | int) -> tuple[str | int, ...]:
    return ("endpoints", 0, *path)


_PORT = "port and portSpecification USE_FIXED_PORT go together; write both or neither"
_SECONDS = "timeoutSec may not be longer than checkIntervalSec; either is 5 when left out"
_RULE = ("groups", 0, "rules", 0)

WRONG: tuple[Wrong, ...] = (
    Wrong(kind="HealthCheckPolicy", path=_http("portSpecification"), value=None, says=_PORT),
    Wrong(kind="HealthCheckPolicy", path=_http("port"), value=None, says=_PORT),
    Wrong(kind="HealthCheckPolicy", path=_http("portSpecification"), value="USE_SERVING_PORT", says=_PORT),
    Wrong(kind="HealthCheckPolicy", path=_http("port"), value=65_536, says="should be less than or equal to 65535"),
    Wrong(kind="HealthCheckPolicy", path=_http("port"), value="8000", says="must be of type integer"),
    Wrong(
        kind="HealthCheckPolicy",
        path=_http("path"),
        value="/health",
        says='unknown field "spec.default.config.httpHealthCheck.path"',
    ),
    Wrong(kind="HealthCheckPolicy", path=_health("timeoutSec"), value=11, says=_SECONDS),
    Wrong(kind="HealthCheckPolicy", path=_health("checkIntervalSec"), value=None, says=_SECONDS),
    Wrong(
        kind="HealthCheckPolicy",
        path=_health("checkIntervalSec"),
        value=301,
        says="should be less than or equal to 300",
    ),
    Wrong(
        kind="HealthCheckPolicy",
        path=_health("unhealthyThreshold"),
        value=11,
        says="should be less than or equal to 10",
    ),
    Wrong(
        kind="HealthCheckPolicy",
        path=_health("config", "type"),
        value="TCP",
        says="type HTTP needs httpHealthCheck, type TCP needs tcpHealthCheck",
    ),
    Wrong(kind="HealthCheckPolicy", path=_health("config", "type"), value=None, says="config.type: Required value"),
    Wrong(kind="HealthCheckPolicy", path=("targetRef", "name"), value=None, says="targetRef.name: Required value"),
    Wrong(
        kind="HealthCheckPolicy",
        path=("targetRef", "group"),
        value="",
        says='a Service is in the group "", an InferencePool in inference.networking.k8s.io',
        real_refuses=False,
    ),
    Wrong(
        kind="GCPBackendPolicy", path=("default", "timeoutSec"), value=0, says="should be greater than or equal to 1"
    ),
    Wrong(
        kind="GCPBackendPolicy",
        path=("default", "connectionDraining", "drainingTimeoutSec"),
        value=3601,
        says="should be less than or equal to 3600",
    ),
    Wrong(
        kind="GCPBackendPolicy",
        path=("default", "logging", "sampleRate"),
        value=1_000_001,
        says="should be less than or equal to 1000000",
    ),
    Wrong(
        kind="GCPBackendPolicy",
        path=("default", "logging", "enabled"),
        value=False,
        says="sampleRate means nothing while logging is off",
        real_refuses=False,
    ),
    Wrong(
        kind="GCPBackendPolicy",
        path=("default", "sessionAffinity", "type"),
        value="CLIENT_IP",
        says="cookieTtlSec needs type GENERATED_COOKIE",
        real_refuses=False,
    ),
    Wrong(kind="GCPBackendPolicy", path=("targetRef",), value=None, says="spec.targetRef: Required value"),
    Wrong(kind="PodMonitoring", path=_endpoint("interval"), value=None, says="interval: Required value"),
    Wrong(kind="PodMonitoring", path=_endpoint("timeout"), value="20s", says="timeout may not be longer than interval"),
    Wrong(kind="PodMonitoring", path=_endpoint("interval"), value="often", says="must be of type duration"),
    Wrong(kind="PodMonitoring", path=_endpoint("port"), value=0, says="port 0 is none"),
    Wrong(
        kind="PodMonitoring",
        path=_endpoint("intervall"),
        value="15s",
        says='unknown field "spec.endpoints[0].intervall"',
    ),
    Wrong(
        kind="PodMonitoring",
        path=_endpoint("metricRelabeling", 0),
        value={"action": "labeldrop"},
        says="labeldrop and labelkeep need a regex",
    ),
    Wrong(
        kind="PodMonitoring",
        path=_endpoint("metricRelabeling", 0, "targetLabel"),
        value="cluster",
        says="this label is written by Google",
    ),
    Wrong(
        kind="PodMonitoring",
        path=("targetLabels", "fromPod", 0, "to"),
        value="instance",
        says="this label is written by Google",
    ),
    Wrong(kind="PodMonitoring", path=("targetLabels", "metadata"), value=["host"], says='Unsupported value: "host"'),
    Wrong(kind="PodMonitoring", path=("endpoints",), value=[], says="should have at least 1 items"),
    Wrong(
        kind="PodMonitoring",
        path=("selector",),
        value={},
        says="an empty selector scrapes every pod",
        real_refuses=False,
    ),
    Wrong(kind="Rules", path=(*_RULE, "alert"), value="Both", says="write exactly one of record and alert"),
    Wrong(kind="Rules", path=(*_RULE, "record"), value=None, says="write exactly one of record and alert"),
    Wrong(
        kind="Rules", path=(*_RULE, "record"), value="fleet tokens", says="should match '^[a-zA-Z_:][a-zA-Z0-9_:]*$'"
    ),
    Wrong(kind="Rules", path=(*_RULE, "annotations"), value={"a": "b"}, says="annotations are for alerts"),
    Wrong(kind="Rules", path=(*_RULE, "expr"), value=None, says="expr: Required value"),
    Wrong(kind="Rules", path=("groups", 0, "interval"), value="30", says="must be of type duration"),
    Wrong(
        kind="ComputeClass",
        path=_rung(2, "flexStart"),
        value={"enabled": True},
        says="flexStart and spot exclude each other",
    ),
    Wrong(
        kind="ComputeClass", path=_rung(0, "priorityScore"), value=10, says="priorityScore is for all rules or for none"
    ),
    Wrong(
        kind="ComputeClass",
        path=_rung(0, "reservations", "specific"),
        value=[],
        says="affinity Specific and at least one item in specific go together",
    ),
    Wrong(
        kind="ComputeClass",
        path=_rung(0, "reservations", "affinity"),
        value="AnyBestEffort",
        says="affinity Specific and at least one item in specific go together",
    ),
    Wrong(
        kind="ComputeClass",
        path=_rung(0, "reservations", "affinity"),
        value="specific",
        says='Unsupported value: "specific"',
    ),
    Wrong(kind="ComputeClass", path=_rung(0, "machineFamily"), value="a4", says="machineType says everything"),
    Wrong(kind="ComputeClass", path=_rung(0, "minCores"), value=8, says="machineType says everything"),
    Wrong(
        kind="ComputeClass", path=_rung(0, "machineType"), value="ek-standard-8", says="ek machines cannot be asked for"
    ),
    Wrong(kind="ComputeClass", path=_rung(2, "capacityCheckWaitTimeSeconds"), value=9, says="is for flexStart"),
    Wrong(
        kind="ComputeClass",
        path=_rung(0, "nodeSystemConfig"),
        value={"kubeletConfig": {"shutdownGracePeriodSeconds": 30}},
        says="shutdownGracePeriodSeconds is for spot",
    ),
    Wrong(
        kind="ComputeClass",
        path=_rung(2, "nodeSystemConfig", "kubeletConfig", "shutdownGracePeriodCriticalPodsSeconds"),
        value=121,
        says="should be less than or equal to 120",
    ),
    Wrong(
        kind="ComputeClass",
        path=_rung(2, "nodeSystemConfig", "kubeletConfig"),
        value={"shutdownGracePeriodSeconds": 30, "shutdownGracePeriodCriticalPodsSeconds": 31},
        says="shutdownGracePeriodCriticalPodsSeconds is a part of shutdownGracePeriodSeconds",
    ),
    Wrong(
        kind="ComputeClass",
        path=_rung(2, "nodeSystemConfig", "kubeletConfig", "shutdownGracePeriodSeconds"),
        value=60,
        says="Unsupported value: 60",
    ),
    Wrong(kind="ComputeClass", path=_rung(0, "gpu", "count"), value="8", says="must be of type integer"),
    Wrong(
        kind="ComputeClass",
        path=_rung(1, "maxRunDurationSeconds"),
        value=604_801,
        says="with flexStart, maxRunDurationSeconds is 600 to 604800 (7 days)",
        real_refuses=False,
    ),
    Wrong(kind="ComputeClass", path=("whenUnsatisfiable",), value="Wait", says='Unsupported value: "Wait"'),
    Wrong(
        kind="SecretProviderClass",
        path=("provider",),
        value="gcp",
        says='Unsupported value: "gcp": supported values: "gke"',
        real_refuses=False,
    ),
    Wrong(
        kind="SecretProviderClass",
        path=("parameters", "secrets"),
        value=SECRET.replace("/versions/latest", ""),
        says="a secret is named in full",
        real_refuses=False,
    ),
    Wrong(
        kind="SecretProviderClass",
        path=("parameters", "secrets"),
        value=SECRET.replace('"path"', '"fileName"'),
        says="each item needs resourceName and path",
        real_refuses=False,
    ),
    Wrong(
        kind="SecretProviderClass",
        path=("parameters", "secret"),
        value="x",
        says='unknown field "spec.parameters.secret"',
        real_refuses=False,
    ),
)
