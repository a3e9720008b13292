"""The router: pods that choose a server for each request, and the Service in front of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pulumi
import pulumi_kubernetes as k8s

from facts.names import ROUTER_APP
from settings.sections.endpoint import ROUTER_DRAIN_SECONDS, ROUTER_EXIT_SECONDS, ROUTER_PRE_STOP_SECONDS
from settings.sections.endpoint import Router as RouterSection
from workloads import names, pod_programs, secret_files
from workloads.python_image import NONROOT
from workloads.router import haproxy
from workloads.server import api_key
from workloads.server.server import Server

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        PodSpecArgsDict,
        ProbeArgsDict,
        VolumeMountArgsDict,
    )
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

IMAGE: Final = "library/haproxy:3.2.25-alpine@sha256:5d97434a423c2533cfeb42874d45cf6d69a840b60334582dfbfd5008e94c80be"
"""The official image of HAProxy's long-term line 3.2; its stop signal is SIGUSR1, which lets streams finish. Source: Docker Hub, as four
public repositories pin it."""
CONFIG_FILE: Final = "haproxy.cfg"
_CONFIG_DIR: Final = "/etc/haproxy"
UPDATE_MINUTES: Final = 30
"""Minutes for an update of the routers: the drains of two, one after the other, and nodes. Assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterArgs:
    """Arguments of `Router`."""

    server: Server
    """The servers to choose from. Their namespace's `Traffic` has `router`, for network policies."""
    image: pulumi.Input[str]
    """Full name of `IMAGE`."""
    router: RouterSection = field(default_factory=RouterSection)
    """Replicas and resources."""
    max_in_flight: int
    """Requests in flight at one server through one router."""
    max_servers: int = 32
    """Most servers at any time, 1 to 400."""


class Router(pulumi.ComponentResource):
    """Routers in front of one group of servers. They follow the servers' readiness, and their own end waits for their streams."""

    endpoint: pulumi.Output[str]
    """URL of the routers' Service inside the cluster, without a path."""
    service: k8s.core.v1.Service
    drain_seconds: int
    """How long a router's streams may continue after its end begins."""

    def __init__(self, name: str, args: RouterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Router", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        namespace, labels = args.server.namespace, names.own_labels(ROUTER_APP)
        self.drain_seconds = ROUTER_PRE_STOP_SECONDS + ROUTER_DRAIN_SECONDS
        metadata: ObjectMetaArgsDict = {"name": ROUTER_APP, "namespace": namespace, "labels": labels}
        # Pulumi would wait for ready servers, which a paused fleet has not.
        at_once = {"pulumi.com/skipAwait": "true"}
        for index in range(len(args.server.ports)):
            service = haproxy.servers_service(index)
            k8s.core.v1.Service(
                service.replace(ROUTER_APP, name, 1),
                metadata=metadata | {"name": service, "annotations": at_once},
                spec={
                    "type": "ClusterIP",
                    "cluster_ip": "None",
                    "selector": names.selector(args.server.name),
                    "ports": [names.http_service_port()],
                },
                opts=child,
            )
        data = {CONFIG_FILE: haproxy.config(haproxy_args(args))}
        config = pod_programs.named_by_content(ROUTER_APP, data)
        needed: list[pulumi.Resource] = [
            names.service_account(f"{name}-account", ROUTER_APP, namespace, child),
            k8s.core.v1.ConfigMap(
                f"{name}-config", metadata=metadata | {"name": config}, immutable=True, data=data, opts=child
            ),
        ]
        versions: dict[str, pulumi.Input[str]] = {}
        key = checked_key(args)
        if key is not None:
            needed.append(key.object)
            if key.version is not None:
                versions["vllm-fleet.dev/api-key-version"] = key.version
        k8s.policy.v1.PodDisruptionBudget(
            f"{name}-disruption-budget",
            metadata=metadata,
            spec={
                "max_unavailable": 1,
                "selector": {"match_labels": names.selector(ROUTER_APP)},
                "unhealthy_pod_eviction_policy": "AlwaysAllow",
            },
            opts=child,
        )
        domain = pulumi.Output.format("{0}.svc.cluster.local", namespace)
        k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=metadata,
            spec={
                "replicas": args.router.replicas,
                "selector": {"match_labels": names.selector(ROUTER_APP)},
                # A successor first: a router needs no GPU.
                "strategy": {"type": "RollingUpdate", "rolling_update": {"max_surge": 1, "max_unavailable": 0}},
                "revision_history_limit": 3,
                "progress_deadline_seconds": UPDATE_MINUTES * 60,
                "template": {
                    "metadata": {"labels": labels, "annotations": versions},
                    "spec": pod_spec(args, config, domain),
                },
            },
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=needed,
                custom_timeouts=pulumi.CustomTimeouts(create=f"{UPDATE_MINUTES}m", update=f"{UPDATE_MINUTES}m"),
            ),
        )
        self.service = k8s.core.v1.Service(
            f"{name}-service",
            metadata=metadata | {"annotations": at_once},
            spec={
                "type": "ClusterIP",
                "selector": names.selector(ROUTER_APP),
                "ports": [names.http_service_port()],
            },
            opts=child,
        )
        self.endpoint = pulumi.Output.format(
            "http://{0}.{1}.svc.cluster.local:{2}",
            names.once_created(self.service, ROUTER_APP),
            namespace,
            names.HTTP_PORT,
        )
        self.register_outputs({"endpoint": self.endpoint})


def checked_key(args: RouterArgs) -> secret_files.Stored | None:
    """The servers' key, if the routers check it: a router in the pods checks none."""
    return args.server.key if args.server.has_pod_router else None


def haproxy_args(args: RouterArgs) -> haproxy.Haproxy:
    """The arguments of the configuration."""
    return haproxy.Haproxy(
        max_servers=args.max_servers,
        ports=args.server.ports,
        router=args.router,
        max_in_flight=args.max_in_flight,
        # The pods' router has paths of its own that change its servers.
        v1_only=args.server.key is not None or args.server.has_pod_router,
        key_file=None if checked_key(args) is None else api_key.PATH,
        has_pod_router=args.server.has_pod_router,
    )


def pod_spec(args: RouterArgs, config: str, domain: pulumi.Input[str]) -> PodSpecArgsDict:
    """Spec of a router's pod. `config`: name of its ConfigMap. `domain`: DNS suffix of the namespace's Services."""
    key = checked_key(args)
    return {
        "service_account_name": ROUTER_APP,
        "automount_service_account_token": False,
        "enable_service_links": False,
        "termination_grace_period_seconds": ROUTER_PRE_STOP_SECONDS + ROUTER_DRAIN_SECONDS + ROUTER_EXIT_SECONDS,
        "security_context": {
            "run_as_non_root": True,
            "run_as_user": NONROOT,
            "run_as_group": NONROOT,
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
        # Two on one node would end together.
        "topology_spread_constraints": [
            {
                "max_skew": 1,
                "topology_key": "kubernetes.io/hostname",
                "when_unsatisfiable": "DoNotSchedule",
                "label_selector": {"match_labels": names.selector(ROUTER_APP)},
            }
        ],
        "containers": [_haproxy(args, domain)],
        "volumes": [
            {"name": "config", "config_map": {"name": config}},
            *([] if key is None else [api_key.volume(key.store)]),
        ],
    }


def _haproxy(args: RouterArgs, domain: pulumi.Input[str]) -> ContainerArgsDict:
    mounts: list[VolumeMountArgsDict] = [{"name": "config", "mount_path": _CONFIG_DIR, "read_only": True}]
    if checked_key(args) is not None:
        mounts.append(api_key.mount())
    amounts = {"cpu": str(args.router.cpu), "memory": f"{args.router.memory_gib}Gi", "ephemeral-storage": "1Gi"}
    health: ProbeArgsDict = {
        "http_get": {"path": haproxy.READY_PATH, "port": names.ROUTER_METRICS_PORT_NAME},
        "period_seconds": 5,
        "timeout_seconds": 5,
    }
    return {
        "name": "haproxy",
        "image": args.image,
        "command": ["haproxy", "-db", "-f", f"{_CONFIG_DIR}/{CONFIG_FILE}"],
        "env": [{"name": haproxy.DOMAIN_VARIABLE, "value": domain}],
        "ports": [
            {"name": names.HTTP_PORT_NAME, "container_port": names.HTTP_PORT, "protocol": "TCP"},
            {"name": names.ROUTER_METRICS_PORT_NAME, "container_port": names.ROUTER_METRICS_PORT, "protocol": "TCP"},
        ],
        "resources": {"requests": amounts, "limits": dict(amounts)},
        "security_context": {
            "allow_privilege_escalation": False,
            "read_only_root_filesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volume_mounts": mounts,
        "readiness_probe": {**health, "failure_threshold": 2},
        "liveness_probe": {**health, "failure_threshold": 12},
        # Load balancers remove the router first; the stop signal then closes its listeners, and its streams finish.
        "lifecycle": {"pre_stop": {"sleep": {"seconds": ROUTER_PRE_STOP_SECONDS}}},
    }
