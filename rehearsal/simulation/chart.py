"""What Helm would install from the `inferencepool` chart v1.4.0: a stand-in, because the chart's registry is out of reach.

Written from the chart's description and checked against its templates; it plays the values that this project sets. The
objects are those of one release: the pool, the endpoint picker (EPP) and its rights.
"""

from __future__ import annotations

from typing import Any, Final

from preview.recording import RecordedResource
from preview.values import reveal
from rehearsal.api import Manifest
from rehearsal.results import RehearsalError
from rehearsal.simulation.chart_values import CHART, VERSION, merged

POOL_GROUP: Final = "inference.networking.k8s.io"
ALPHA_GROUP: Final = "inference.networking.x-k8s.io"
RBAC: Final = "rbac.authorization.k8s.io/v1"
GRPC_PORT: Final = 9002
HEALTH_PORT: Final = 9003
METRICS_PORT: Final = 9090
GRACE_SECONDS: Final = 130
# Source: config/charts/epplib/templates/_deployment.yaml; none of the four can be set.
LEASE_VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete")
READ_VERBS: Final = ("get", "watch", "list")

_PLUGINS: Final = """\
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
    weight: 2
  - pluginRef: kv-cache-utilization-scorer
    weight: 2
  - pluginRef: prefix-cache-scorer
    weight: 3
"""
"""The chart's default scorers and weights."""


def chart_objects(release: RecordedResource) -> list[Manifest]:
    """Every object of a recorded Helm release. Raises RehearsalError for another chart, another version or unknown values."""
    inputs: dict[str, Any] = reveal(dict(release.inputs))
    chart, version = inputs.get("chart"), inputs.get("version")
    if (chart, version) != (CHART, VERSION):
        raise RehearsalError(
            f"Helm release {inputs.get('name', release.name)} installs {chart} {version}; the rehearsal stands in for "
            f"{CHART} {VERSION} alone. Use that version, or teach rehearsal/simulation/chart.py the other"
        )
    return _Release(
        str(inputs["name"]), str(inputs.get("namespace", "default")), merged(inputs.get("values") or {})
    ).objects()


class _Release:
    def __init__(self, name: str, namespace: str, values: dict[str, Any]) -> None:
        self.name, self.namespace = name, namespace
        self.epp, self.pool = values["inferenceExtension"], values["inferencePool"]
        self.provider = values["provider"]["name"].lower()
        self.epp_name = f"{name.lower().strip()[:40]}-epp"
        self.labels = {"app.kubernetes.io/name": self.epp_name, "app.kubernetes.io/version": VERSION}
        self.selector = {"inferencepool": self.epp_name}
        self.mode = {"inference.networking.k8s.io/igw-mode": "inferencepool"}

    @property
    def is_doubled(self) -> bool:
        """More than one picker: one leads, the others stand by."""
        return int(self.epp["replicas"]) > 1

    @property
    def has_prometheus(self) -> bool:
        return bool(self.epp["monitoring"]["prometheus"]["enabled"])

    def objects(self) -> list[Manifest]:
        """What others need comes first: accounts and rights, then the picker, then the pool and what attaches to it."""
        found = [self._account(), self._config()]
        found += self._role("non-sa", self._pool_rules())
        found += self._role("sa", [{"apiGroups": [""], "resources": ["pods"], "verbs": list(READ_VERBS)}])
        if self.is_doubled:
            found += self._leader_election()
        if self.has_prometheus:
            found += self._prometheus()
        found += [self._service(), self._deployment(), self._inference_pool()]
        if self.provider == "gke":
            found += self._gke_policies()
        return found

    def _object(self, api_version: str, kind: str, name: str, *, labelled: bool = True, **fields: Any) -> Manifest:
        metadata: Manifest = {"name": name, "namespace": self.namespace}
        if labelled:
            metadata["labels"] = dict(self.labels)
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}

    def _list(self, key: str) -> list[Any]:
        return list(self.epp.get(key) or ())

    # The endpoint picker

    def _config(self) -> Manifest:
        data = {"default-plugins.yaml": _PLUGINS, **(self.epp.get("pluginsCustomConfig") or {})}
        return self._object("v1", "ConfigMap", self.epp_name, labelled=False, data=data)

    def _deployment(self) -> Manifest:
        pod: Manifest = {
            "serviceAccountName": self.epp_name,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "containers": [self._container()],
            "volumes": [
                *self._list("volumes"),
                {"name": "plugins-config-volume", "configMap": {"name": self.epp_name}},
            ],
        }
        for key in ("affinity", "tolerations"):
            if self.epp.get(key):
                pod[key] = self.epp[key]
        deployment = self._object(
            "apps/v1",
            "Deployment",
            self.epp_name,
            spec={
                "replicas": int(self.epp["replicas"]) or 1,  # as the template: zero is its default, one
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": dict(self.selector)},
                "template": {"metadata": {"labels": {**self.selector, **self.mode}}, "spec": pod},
            },
        )
        deployment["metadata"]["labels"] |= self.mode
        return deployment

    def _container(self) -> Manifest:
        image = self.epp["image"]
        service = ("liveness", "readiness") if self.is_doubled else ("inference-extension", "inference-extension")
        container: Manifest = {
            "name": "epp",
            "image": f"{image['hub']}/{image['name']}:{image['tag']}",
            "imagePullPolicy": image.get("pullPolicy") or "IfNotPresent",
            "args": self._arguments(),
            "ports": [
                {"name": "grpc", "containerPort": GRPC_PORT},
                {"name": "grpc-health", "containerPort": HEALTH_PORT},
                {"name": "metrics", "containerPort": METRICS_PORT},
            ],
            "livenessProbe": {
                "grpc": {"port": HEALTH_PORT, "service": service[0]},
                "initialDelaySeconds": 5,
                "periodSeconds": 10,
            },
            "readinessProbe": {"grpc": {"port": HEALTH_PORT, "service": service[1]}, "periodSeconds": 2},
            "env": [_from_field("NAMESPACE", "namespace"), _from_field("POD_NAME", "name"), *self._list("env")],
            "volumeMounts": [
                {"name": "plugins-config-volume", "mountPath": "/config"},
                *self._list("volumeMounts"),
            ],
        }
        if self.epp.get("resources"):
            container["resources"] = self.epp["resources"]
        return container

    def _arguments(self) -> list[str]:
        flags = [
            item for key, value in sorted((self.epp.get("flags") or {}).items()) for item in (f"--{key}", _text(value))
        ]
        return [
            *("--pool-name", self.name, "--pool-namespace", self.namespace),
            *("--pool-group", self.pool["apiVersion"].partition("/")[0]),
            *("--zap-encoder", "json", "--config-file", f"/config/{self.epp['pluginsConfigFile']}"),
            *(["--ha-enable-leader-election"] if self.is_doubled else []),
            *flags,
            "--tracing=false",
            *([] if self.epp["monitoring"]["prometheus"]["auth"]["enabled"] else ["--metrics-endpoint-auth=false"]),
        ]

    def _service(self) -> Manifest:
        ports = [
            {"name": "grpc-ext-proc", "protocol": "TCP", "port": self.epp.get("extProcPort") or GRPC_PORT},
            {"name": "http-metrics", "protocol": "TCP", "port": self.epp.get("metricsPort") or METRICS_PORT},
            *self._list("extraServicePorts"),
        ]
        spec = {"selector": dict(self.selector), "ports": ports, "type": "ClusterIP"}
        return self._object("v1", "Service", self.epp_name, spec=spec)

    # Rights

    def _account(self) -> Manifest:
        return self._object("v1", "ServiceAccount", self.epp_name)

    def _pool_rules(self) -> list[Manifest]:
        alpha = ["inferenceobjectives", "inferencemodelrewrites"]
        group = self.pool["apiVersion"].partition("/")[0]
        return [
            {"apiGroups": [ALPHA_GROUP], "resources": alpha, "verbs": list(READ_VERBS)},
            {"apiGroups": [group], "resources": ["inferencepools"], "verbs": list(READ_VERBS)},
        ]

    def _leader_election(self) -> list[Manifest]:
        rules: list[Manifest] = [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": list(LEASE_VERBS)},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        ]
        role, binding = self._role("leader-election", rules)
        binding["metadata"]["name"] = f"{self.epp_name}-leader-election-binding"
        del binding["subjects"][0]["namespace"]  # the template leaves it out; Kubernetes takes the binding's own
        return [role, binding]

    def _role(self, suffix: str, rules: list[Manifest]) -> list[Manifest]:
        name = f"{self.epp_name}-{suffix}"
        binding = self._object(
            RBAC,
            "RoleBinding",
            name,
            labelled=False,
            subjects=[{"kind": "ServiceAccount", "name": self.epp_name, "namespace": self.namespace}],
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        )
        return [self._object(RBAC, "Role", name, rules=rules), binding]

    # Pool, monitoring, GKE

    def _inference_pool(self) -> Manifest:
        spec = {
            "targetPorts": [{"number": one["number"]} for one in self.pool["targetPorts"]],
            "selector": {
                "matchLabels": {key: str(value) for key, value in self.pool["modelServers"]["matchLabels"].items()}
            },
            "endpointPickerRef": {
                "name": self.epp_name,
                "port": {"number": self.epp.get("extProcPort") or GRPC_PORT},
                "failureMode": self.epp.get("failureMode") or "FailOpen",
            },
        }
        return self._object(f"{POOL_GROUP}/v1", "InferencePool", self.name, spec=spec)

    def _prometheus(self) -> list[Manifest]:
        """Rights for asking who may read /metrics; and, off GKE, a ServiceMonitor, a kind that GKE does not have."""
        name = f"{self.name.lower().strip()[:40]}-{self.namespace.lower().strip()[:40]}-epp"
        role = {
            "apiVersion": RBAC,
            "kind": "ClusterRole",
            "metadata": {"name": name, "labels": dict(self.labels)},
            "rules": [
                {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
                {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
                {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
            ],
        }
        binding = {
            "apiVersion": RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "subjects": [{"kind": "ServiceAccount", "name": self.epp_name, "namespace": self.namespace}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        }
        found: list[Manifest] = [role, binding]
        prometheus = self.epp["monitoring"]["prometheus"]
        if self.provider == "gke":
            if prometheus["auth"]["enabled"]:
                raise RehearsalError(
                    "the chart's own PodMonitoring with a token (monitoring.prometheus enabled with auth, provider gke) is not "
                    "stood in for: switch auth off and write a PodMonitoring, as workloads/monitoring.py does"
                )
            return found
        endpoint: Manifest = {
            "interval": self.epp["monitoring"]["interval"],
            "port": "http-metrics",
            "path": "/metrics",
        }
        if prometheus["auth"]["enabled"]:
            endpoint["authorization"] = {"credentials": {"key": "token", "name": prometheus["auth"]["secretName"]}}
            token = self._object(
                "v1",
                "Secret",
                prometheus["auth"]["secretName"],
                type="kubernetes.io/service-account-token",
            )
            token["metadata"]["annotations"] = {"kubernetes.io/service-account.name": self.epp_name}
            found.append(token)
        monitor = self._object(
            "monitoring.coreos.com/v1",
            "ServiceMonitor",
            f"{self.epp_name}-monitor",
            spec={
                "endpoints": [endpoint],
                "jobLabel": self.epp_name,
                "namespaceSelector": {"matchNames": [self.namespace]},
                "selector": {"matchLabels": dict(self.labels)},
            },
        )
        monitor["metadata"]["labels"] |= prometheus["extraLabels"]
        return [*found, monitor]

    def _gke_policies(self) -> list[Manifest]:
        target = {"group": POOL_GROUP, "kind": "InferencePool", "name": self.name}
        health = {
            "timeoutSec": 2,
            "checkIntervalSec": 2,
            "config": {
                "type": "HTTP",
                "httpHealthCheck": {"requestPath": "/health", "port": self.pool["targetPortNumber"]},
            },
        }
        backend = {"timeoutSec": 300, "logging": {"enabled": True}}
        return [
            self._object(
                "networking.gke.io/v1", "HealthCheckPolicy", self.name, spec={"targetRef": target, "default": health}
            ),
            self._object(
                "networking.gke.io/v1",
                "GCPBackendPolicy",
                self.name,
                labelled=True,
                spec={"targetRef": target, "default": backend},
            ),
        ]


def _from_field(name: str, field: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{field}"}}}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
