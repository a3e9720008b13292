"""llm-d's endpoint picker, and the InferencePool that asks it. Their chart is not used: docs/decisions/09-gateway.md has the reasons.

Source of options, ports, rights and plugins: llm-d-router v0.10.0, pkg/epp/server/options.go, cmd/epp/runner/health.go, config/charts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pulumi
import pulumi_kubernetes as k8s

from facts.pickers import LLM_D_IMAGE
from settings.sections.gateway import EPP_MEMORY_GIB, Epp
from workloads import names, pod_programs
from workloads.python_image import NONROOT
from workloads.server.server import Server

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ContainerArgsDict, PodSpecArgsDict, ProbeArgsDict
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

CONFIG_FILE: Final = "picker.yaml"
CONFIG: Final = """\
apiVersion: llm-d.ai/v1alpha1
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
"""The plugins and weights of its authors' chart. Flow control stays off, its default: on, it would refuse the 5,001st request."""
_CONFIG_DIR: Final = "/config"
EXIT_SECONDS: Final = 130
"""Its grace period: it continues to serve for 30 s, then waits for open streams. Source: the chart."""
START_MINUTES: Final = 15
"""Minutes to wait for the picker. Assumed: time to create a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPickerArgs:
    """Arguments of `EndpointPicker`."""

    pool: str
    """Name of the InferencePool; the picker's objects are named after it. The namespace's `Traffic` has it, for network policies."""
    server: Server
    """Servers that the pool selects. Each of their ports is an endpoint of its own."""
    epp: Epp = field(default_factory=Epp)
    """Resources, replicas and machine. `release` is ignored here."""


class EndpointPicker(pulumi.ComponentResource):
    """An InferencePool with llm-d's endpoint picker. It installs no CRD: GKE has the pool's.

    There is no disruption budget: standby pickers are not ready by design, so one would keep the leader's node from being drained.
    """

    def __init__(self, name: str, args: EndpointPickerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:EndpointPicker", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        app = names.epp_name(args.pool)
        # Its own `app`: with the servers', their Service would select it.
        labels = names.own_labels(app) | names.epp_selector(args.pool)
        metadata: ObjectMetaArgsDict = {"name": app, "namespace": args.server.namespace, "labels": labels}
        data = {CONFIG_FILE: CONFIG}
        config = pod_programs.named_by_content(app, data)
        needed: list[pulumi.Resource] = [
            k8s.core.v1.ConfigMap(
                f"{name}-config", metadata=metadata | {"name": config}, immutable=True, data=data, opts=child
            ),
            k8s.core.v1.ServiceAccount(f"{name}-account", metadata=metadata, opts=child),
            k8s.rbac.v1.Role(f"{name}-role", metadata=metadata, rules=rights(args.epp.replicas), opts=child),
            k8s.rbac.v1.RoleBinding(
                f"{name}-role-binding",
                metadata=metadata,
                role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "Role", "name": app},
                subjects=[{"kind": "ServiceAccount", "name": app, "namespace": args.server.namespace}],
                opts=child,
            ),
        ]
        service = k8s.core.v1.Service(
            f"{name}-service",
            # Pulumi would wait for a ready picker, which waits for the pool.
            metadata=metadata | {"annotations": {"pulumi.com/skipAwait": "true"}},
            spec={
                "type": "ClusterIP",
                "selector": names.epp_selector(args.pool),
                "ports": [
                    {
                        "name": "grpc-ext-proc",
                        "port": names.EPP_EXT_PROC_PORT,
                        "target_port": names.EPP_EXT_PROC_PORT,
                        "protocol": "TCP",
                        # Source: the chart's Service.
                        "app_protocol": "kubernetes.io/h2c",
                    }
                ],
            },
            opts=child,
        )
        pool = k8s.apiextensions.CustomResource(
            f"{name}-pool",
            api_version=f"{names.POOL_GROUP}/v1",
            kind="InferencePool",
            metadata={
                "name": args.pool,
                "namespace": args.server.namespace,
                "labels": names.own_labels(args.server.name),
            },
            spec={
                "selector": {"matchLabels": names.selector(args.server.name)},
                "targetPorts": [{"number": port} for port in args.server.ports],
                "endpointPickerRef": {
                    "name": app,
                    "port": {"number": names.EPP_EXT_PROC_PORT},
                    # Without a picker, the proxies choose: worse balance is better than no response.
                    "failureMode": "FailOpen",
                },
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=[service]),
        )
        # Standby pickers are not ready by design, so waiting for all replicas would never end.
        unawaited = {"pulumi.com/skipAwait": "true"} if args.epp.replicas > 1 else {}
        k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=metadata | {"annotations": unawaited},
            spec={
                "replicas": args.epp.replicas,
                "selector": {"match_labels": names.epp_selector(args.pool)},
                # Two active pickers would each know half of the requests, and a standby becomes ready only after the leader's end.
                "strategy": {"type": "Recreate"},
                "revision_history_limit": 3,
                "template": {"metadata": {"labels": labels}, "spec": pod_spec(args, app, config)},
            },
            opts=pulumi.ResourceOptions(
                parent=self,
                # It is ready once it has read the pool.
                depends_on=[*needed, pool],
                custom_timeouts=pulumi.CustomTimeouts(create=f"{START_MINUTES}m", update=f"{START_MINUTES}m"),
            ),
        )
        self.register_outputs({})


def rights(replicas: int) -> list[PolicyRuleArgsDict]:
    """What a picker reads in its namespace, and with a standby the lease of the leader.

    Objectives and rewrites too: where a cluster has their CRDs, the picker waits for them.
    """
    read = ["get", "list", "watch"]
    rules: list[PolicyRuleArgsDict] = [
        {"api_groups": [""], "resources": ["pods"], "verbs": read},
        {"api_groups": [names.POOL_GROUP], "resources": ["inferencepools"], "verbs": read},
        {
            "api_groups": ["llm-d.ai", "inference.networking.x-k8s.io"],
            "resources": ["inferenceobjectives", "inferencemodelrewrites"],
            "verbs": read,
        },
    ]
    if replicas > 1:
        rules += [
            {
                "api_groups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "verbs": [*read, "create", "update", "patch", "delete"],
            },
            {"api_groups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        ]
    return rules


def options(pool: str, replicas: int) -> list[str]:
    """The picker's command line. Its namespace comes from the variable NAMESPACE."""
    return [
        f"--pool-name={pool}",
        f"--config-file={_CONFIG_DIR}/{CONFIG_FILE}",
        "--zap-encoder=json",
        # With its default of 2 it logs two lines for each request.
        "--v=1",
        # No token on /metrics: network policies admit only the collectors.
        "--metrics-endpoint-auth=false",
        "--enable-pprof=false",
        # By default it sends traces to a collector that is not there.
        "--tracing=false",
        *(["--ha-enable-leader-election"] if replicas > 1 else []),
    ]


def pod_spec(args: EndpointPickerArgs, app: str, config: str) -> PodSpecArgsDict:
    """Spec of a picker's pod. `app`: its service account. `config`: name of its ConfigMap."""
    spec: PodSpecArgsDict = {
        "service_account_name": app,
        "enable_service_links": False,
        "termination_grace_period_seconds": EXIT_SECONDS,
        "security_context": {
            "run_as_non_root": True,
            "run_as_user": NONROOT,
            "run_as_group": NONROOT,
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(args)],
        "volumes": [{"name": "config", "config_map": {"name": config}}],
    }
    if args.epp.replicas > 1:
        # A standby on the leader's node would end with it.
        spec["topology_spread_constraints"] = [
            {
                "max_skew": 1,
                "topology_key": "kubernetes.io/hostname",
                "when_unsatisfiable": "DoNotSchedule",
                "label_selector": {"match_labels": names.epp_selector(args.pool)},
            }
        ]
    return spec


def _container(args: EndpointPickerArgs) -> ContainerArgsDict:
    amounts = {"cpu": str(args.epp.cpu), "memory": f"{EPP_MEMORY_GIB}Gi", "ephemeral-storage": "1Gi"}

    def health(service: str) -> ProbeArgsDict:
        # Without leader election it answers both alike: whether it has read the pool.
        return {"grpc": {"port": names.EPP_HEALTH_PORT, "service": service}, "timeout_seconds": 5}

    return {
        "name": "epp",
        # Its name has a registry, so the stack's Docker Hub prefix is not added.
        "image": LLM_D_IMAGE,
        "args": [*options(args.pool, args.epp.replicas)],
        "env": [
            {"name": name, "value_from": {"field_ref": {"field_path": f"metadata.{path}"}}}
            for name, path in (("NAMESPACE", "namespace"), ("POD_NAME", "name"))
        ],
        "ports": [
            {"name": "grpc", "container_port": names.EPP_EXT_PROC_PORT, "protocol": "TCP"},
            {"name": "grpc-health", "container_port": names.EPP_HEALTH_PORT, "protocol": "TCP"},
            {"name": names.EPP_METRICS_PORT_NAME, "container_port": names.EPP_METRICS_PORT, "protocol": "TCP"},
        ],
        "resources": {"requests": amounts, "limits": dict(amounts)},
        "security_context": {
            "allow_privilege_escalation": False,
            "read_only_root_filesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volume_mounts": [{"name": "config", "mount_path": _CONFIG_DIR, "read_only": True}],
        "readiness_probe": {**health("readiness"), "period_seconds": 5},
        "liveness_probe": {
            **health("liveness"),
            "initial_delay_seconds": 5,
            "period_seconds": 10,
            "failure_threshold": 6,
        },
    }
