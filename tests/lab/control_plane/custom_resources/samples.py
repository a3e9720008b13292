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
PRIORITY: Spec = {"machineType": "a4-highgpu-8g", "gpu": {"type": "nvidia-b200", "count": 8}}

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
                    **PRIORITY,
                    "reservations": {
                        "affinity": "Specific",
                        "specific": [{"name": "block", "zones": ["europe-west4-b"]}],
                    },
                },
                {
                    **PRIORITY,
                    "flexStart": {"enabled": True, "nodeRecycling": {"leadTimeSeconds": 3600}},
                    "maxRunDurationSeconds": 604_800,
                    "capacityCheckWaitTimeSeconds": 900,
                },
                {
                    **PRIORITY,
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


def _of(number: int, *path: str | int) -> tuple[str | int, ...]:
    return ("priorities", number, *path)


def _endpoint(*path: str | int) -> tuple[str | int, ...]:
    return ("endpoints", 0, *path)


_PORT = "port and portSpecification USE_FIXED_PORT go together; write both or neither"
_SECONDS = "timeoutSec may not be longer than checkIntervalSec; either is 5 when left out"
_RULE = ("groups", 0, "rules", 0)
_KUBELET = ("nodeSystemConfig", "kubeletConfig")
_CRITICAL = "shutdownGracePeriodCriticalPodsSeconds"

Row = tuple[tuple[str | int, ...], Any, str]
"""Path, value, what is said."""
REFUSED_BY_BOTH: dict[str, list[Row]] = {
    "HealthCheckPolicy": [
        (_http("portSpecification"), None, _PORT),
        (_http("port"), None, _PORT),
        (_http("portSpecification"), "USE_SERVING_PORT", _PORT),
        (_http("port"), 65_536, "should be less than or equal to 65535"),
        (_http("port"), "8000", "must be of type integer"),
        (_http("path"), "/health", 'unknown field "spec.default.config.httpHealthCheck.path"'),
        (_health("timeoutSec"), 11, _SECONDS),
        (_health("checkIntervalSec"), None, _SECONDS),
        (_health("checkIntervalSec"), 301, "should be less than or equal to 300"),
        (_health("unhealthyThreshold"), 11, "should be less than or equal to 10"),
        (_health("config", "type"), "TCP", "type HTTP needs httpHealthCheck, type TCP needs tcpHealthCheck"),
        (_health("config", "type"), None, "config.type: Required value"),
        (("targetRef", "name"), None, "targetRef.name: Required value"),
    ],
    "GCPBackendPolicy": [
        (("default", "timeoutSec"), 0, "should be greater than or equal to 1"),
        (("default", "connectionDraining", "drainingTimeoutSec"), 3601, "should be less than or equal to 3600"),
        (("default", "logging", "sampleRate"), 1_000_001, "should be less than or equal to 1000000"),
        (("targetRef",), None, "spec.targetRef: Required value"),
    ],
    "PodMonitoring": [
        (_endpoint("interval"), None, "interval: Required value"),
        (_endpoint("timeout"), "20s", "timeout may not be longer than interval"),
        (_endpoint("interval"), "often", "must be of type duration"),
        (_endpoint("port"), 0, "port 0 is none"),
        (_endpoint("intervall"), "15s", 'unknown field "spec.endpoints[0].intervall"'),
        (_endpoint("metricRelabeling", 0), {"action": "labeldrop"}, "labeldrop and labelkeep need a regex"),
        (_endpoint("metricRelabeling", 0, "targetLabel"), "cluster", "this label is written by Google"),
        (("targetLabels", "fromPod", 0, "to"), "instance", "this label is written by Google"),
        (("targetLabels", "metadata"), ["host"], 'Unsupported value: "host"'),
        (("endpoints",), [], "should have at least 1 items"),
    ],
    "Rules": [
        ((*_RULE, "alert"), "Both", "write exactly one of record and alert"),
        ((*_RULE, "record"), None, "write exactly one of record and alert"),
        ((*_RULE, "record"), "fleet tokens", "should match '^[a-zA-Z_:][a-zA-Z0-9_:]*$'"),
        ((*_RULE, "annotations"), {"a": "b"}, "annotations are for alerts"),
        ((*_RULE, "expr"), None, "expr: Required value"),
        (("groups", 0, "interval"), "30", "must be of type duration"),
    ],
    "ComputeClass": [
        (_of(2, "flexStart"), {"enabled": True}, "flexStart and spot exclude each other"),
        (_of(0, "priorityScore"), 10, "priorityScore is for all rules or for none"),
        (_of(0, "reservations", "specific"), [], "affinity Specific and at least one item in specific go together"),
        (_of(0, "reservations", "affinity"), "AnyBestEffort", "affinity Specific and at least one item in specific go together"),
        (_of(0, "reservations", "affinity"), "specific", 'Unsupported value: "specific"'),
        (_of(0, "machineFamily"), "a4", "machineType says everything"),
        (_of(0, "minCores"), 8, "machineType says everything"),
        (_of(0, "machineType"), "ek-standard-8", "ek machines cannot be asked for"),
        (_of(2, "capacityCheckWaitTimeSeconds"), 9, "is for flexStart"),
        (_of(0, "nodeSystemConfig"), {"kubeletConfig": {"shutdownGracePeriodSeconds": 30}}, "shutdownGracePeriodSeconds is for spot"),
        (_of(2, *_KUBELET, _CRITICAL), 121, "should be less than or equal to 120"),
        (_of(2, *_KUBELET), {"shutdownGracePeriodSeconds": 30, _CRITICAL: 31}, f"{_CRITICAL} is a part of shutdownGracePeriodSeconds"),
        (_of(2, *_KUBELET, "shutdownGracePeriodSeconds"), 60, "Unsupported value: 60"),
        (_of(0, "gpu", "count"), "8", "must be of type integer"),
        (("whenUnsatisfiable",), "Wait", 'Unsupported value: "Wait"'),
    ],
}  # fmt: skip
REFUSED_BY_OURS: dict[str, list[Row]] = {
    "HealthCheckPolicy": [
        (("targetRef", "group"), "", 'a Service is in the group "", an InferencePool in inference.networking.k8s.io'),
    ],
    "GCPBackendPolicy": [
        (("default", "logging", "enabled"), False, "sampleRate means nothing while logging is off"),
        (("default", "sessionAffinity", "type"), "CLIENT_IP", "cookieTtlSec needs type GENERATED_COOKIE"),
    ],
    "PodMonitoring": [
        (("selector",), {}, "an empty selector scrapes every pod"),
    ],
    "ComputeClass": [
        (_of(1, "maxRunDurationSeconds"), 604_801, "with flexStart, maxRunDurationSeconds is 600 to 604800 (7 days)"),
    ],
    "SecretProviderClass": [
        (("provider",), "gcp", 'Unsupported value: "gcp": supported values: "gke"'),
        (("parameters", "secrets"), SECRET.replace("/versions/latest", ""), "a secret is named in full"),
        (("parameters", "secrets"), SECRET.replace('"path"', '"fileName"'), "each item needs resourceName and path"),
        (("parameters", "secret"), "x", 'unknown field "spec.parameters.secret"'),
    ],
}  # fmt: skip
WRONG = tuple(
    Wrong(kind=kind, path=path, value=value, says=says, real_refuses=both)
    for both, table in ((True, REFUSED_BY_BOTH), (False, REFUSED_BY_OURS))
    for kind, rows in table.items()
    for path, value, says in rows
)
