"""The router: pods that choose a server for each request, and the Service in front of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import pulumi
import pulumi_kubernetes as k8s

from facts.names import ROUTER_APP
from settings.arguments import checked, refuse_field
from settings.derived.router import CONNECTIONS_PER_GIB
from settings.sections.endpoint import ROUTER_EXIT_SECONDS, ROUTER_PRE_STOP_SECONDS
from settings.sections.endpoint import Router as RouterSection
from settings.sections.secret_stores import SecretManagerSecret
from workloads import names, pod_programs, secret_files, vllm_router
from workloads.manifest import Manifest
from workloads.router import haproxy
from workloads.server import api_key
from workloads.server.server import Server
from workloads.small_pod import NONROOT
from workloads.space import Space, once_created

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        EnvVarArgsDict,
        PodSpecArgsDict,
        ProbeArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
        VolumeProjectionArgsDict,
    )
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

IMAGE: Final = "library/haproxy:3.2.25-alpine@sha256:5d97434a423c2533cfeb42874d45cf6d69a840b60334582dfbfd5008e94c80be"
"""The official image of HAProxy's long-term line 3.2; its stop signal is SIGUSR1, which lets streams finish. Source: Docker Hub, as four
public repositories pin it."""
CONFIG_FILE: Final = "haproxy.cfg"
_CONFIG_DIR: Final = "/etc/haproxy"
_CLIENTS_DIR: Final = "/var/run/secrets/clients"
_CLIENT_KEY: Final = "key"
_API_ACCESS: Final = "api-access"
_API_DIR: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where clients of the Kubernetes API look. Source: Kubernetes docs, "Configure Service Accounts for Pods"."""
_API_SECONDS: Final = 3_607
"""As of the token that the kubelet mounts by itself. Source: Kubernetes docs, "Managing Service Accounts", bound tokens."""
UPDATE_MINUTES: Final = 30
"""Minutes for an update of the routers: the drains of two, one after the other, and nodes. Assumed."""


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class RouterArgs:
    """Arguments of `Router`."""

    space: Space
    """Namespace, labels, image source. The namespace's `Traffic` has `router`, for account and network policies."""
    server: Server
    """The servers to choose from."""
    kind: Literal["leastRequest", "prefixAware"]
    """How a server is chosen: the one with the fewest requests, or the one that saw the prompt's beginning."""
    router: RouterSection = field(default_factory=RouterSection)
    """Replicas, resources, limits, timeouts and clients."""
    max_in_flight: int
    """Requests in flight at one server through one router."""
    slots: int = 32
    """Most servers at any time, 1 to 400."""
    client_secrets: Mapping[str, SecretManagerSecret] = field(default_factory=dict)
    """Secret Manager secrets with the clients' keys, by client's name."""

    def __post_init__(self) -> None:
        if self.has_vllm_router and self.router.image is None:
            refuse_field(
                self,
                "router",
                found="image=None",
                allowed="an image with vllm-router 0.1.17 and Python",
                why="no release of vllm-router is published as an image",
                write='Router(image="HOST/PATH/NAME:TAG@sha256:DIGEST")',
            )
        missing = [client.name for client in self.router.clients if client.name not in self.client_secrets]
        if missing or (self.router.clients and self.server.key_store is None):
            refuse_field(
                self,
                "client_secrets",
                found=f"{len(self.client_secrets)} secrets",
                allowed="a secret for each client, and servers with an API key",
                why="a router replaces a client's key by the servers' own",
                write=f'client_secrets={{"{(missing or [self.router.clients[0].name])[0]}": SecretManagerSecret(...)}}',
            )

    @property
    def has_vllm_router(self) -> bool:
        """Whether the pods run vllm-router, behind HAProxy."""
        return self.kind == "prefixAware"


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
        namespace, marks = args.space.namespace, names.labels(args.space.labels, ROUTER_APP)
        self.drain_seconds = ROUTER_PRE_STOP_SECONDS + args.router.drain_seconds
        metadata: ObjectMetaArgsDict = {"name": ROUTER_APP, "namespace": namespace, "labels": marks}
        # Pulumi would wait for ready servers, which a paused fleet has not.
        at_once = {"pulumi.com/skipAwait": "true"}
        for index in range(len(args.server.ports) if args.kind == "leastRequest" else 0):
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
            k8s.core.v1.ConfigMap(
                f"{name}-config", metadata=metadata | {"name": config}, immutable=True, data=data, opts=child
            )
        ]
        needed += self._permissions(name, args, metadata)
        versions: dict[str, pulumi.Input[str]] = {}
        key = args.server.stored_key
        if reads_key(args) and key is not None:
            needed.append(key.object)
            if key.version is not None:
                versions["vllm-fleet.dev/api-key-version"] = key.version
        for client in args.router.clients:
            stored = secret_files.stored(
                args.client_secrets[client.name],
                key=_CLIENT_KEY,
                secret_name=f"{name}-client-{client.name}",
                class_name=f"{name}-client-{client.name}-class",
                metadata=metadata | {"name": _client_store(client.name)},
                opts=child,
            )
            needed.append(stored.object)
            if stored.version is not None:
                versions[f"vllm-fleet.dev/client-{client.name}-version"] = stored.version
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
                    "metadata": {"labels": marks, "annotations": versions},
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
            "http://{0}.{1}.svc.cluster.local:{2}", once_created(self.service, ROUTER_APP), namespace, names.HTTP_PORT
        )
        self.register_outputs({"endpoint": self.endpoint})

    def _permissions(self, name: str, args: RouterArgs, metadata: ObjectMetaArgsDict) -> list[pulumi.Resource]:
        """vllm-router finds the servers through the Kubernetes API."""
        if not args.has_vllm_router:
            return []
        child = pulumi.ResourceOptions(parent=self)
        return [
            k8s.rbac.v1.Role(
                f"{name}-role",
                metadata=metadata,
                rules=[{"api_groups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
                opts=child,
            ),
            k8s.rbac.v1.RoleBinding(
                f"{name}-role-binding",
                metadata=metadata,
                role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "Role", "name": ROUTER_APP},
                subjects=[{"kind": "ServiceAccount", "name": ROUTER_APP, "namespace": args.space.namespace}],
                opts=child,
            ),
        ]


def reads_key(args: RouterArgs) -> bool:
    """Whether the routers need the servers' key: vllm-router checks none, and clients may have keys of their own."""
    is_checked_here = args.has_vllm_router or args.server.has_pod_router
    return args.server.key_store is not None and (is_checked_here or bool(args.router.clients))


def haproxy_args(args: RouterArgs) -> haproxy.Haproxy:
    """What HAProxy is told."""
    chosen = args.router
    is_direct, vllm_routed = args.kind == "leastRequest", args.has_vllm_router or args.server.has_pod_router
    return haproxy.Haproxy(
        servers=haproxy.Discovered(slots=args.slots, ports=args.server.ports)
        if is_direct
        else haproxy.Fixed(addresses=(f"127.0.0.1:{vllm_router.PORT}",)),
        threads=chosen.cpu,
        max_connections=chosen.memory_gib * CONNECTIONS_PER_GIB,
        max_in_flight=args.max_in_flight if is_direct else args.max_in_flight * args.slots,
        max_queued=chosen.max_queued,
        queue_seconds=chosen.queue_seconds,
        timeout_seconds=chosen.timeout_seconds,
        drain_seconds=chosen.drain_seconds,
        # vllm-router has paths of its own that change its servers.
        v1_only=args.server.key_store is not None or vllm_routed,
        key_file=api_key.PATH if reads_key(args) else None,
        clients=tuple(
            haproxy.Client(
                name=client.name,
                key_file=f"{_CLIENTS_DIR}/{client.name}/{_CLIENT_KEY}",
                requests_per_second=client.requests_per_second,
                max_in_flight=client.max_in_flight,
            )
            for client in chosen.clients
        ),
        hides_errors=vllm_routed,
        one_answer=args.server.has_pod_router,
        health_path=vllm_router.HEALTH_PATH if vllm_routed else haproxy.HEALTH_PATH,
    )


def pod_spec(args: RouterArgs, config: str, domain: pulumi.Input[str]) -> PodSpecArgsDict:
    """Spec of a router's pod. `config`: name of its ConfigMap. `domain`: DNS suffix of the namespace's Services."""
    spec: PodSpecArgsDict = {
        "service_account_name": ROUTER_APP,
        # vllm-router alone uses the Kubernetes API; its container has the token by a mount of its own.
        "automount_service_account_token": False,
        "enable_service_links": False,
        "termination_grace_period_seconds": ROUTER_PRE_STOP_SECONDS + args.router.drain_seconds + ROUTER_EXIT_SECONDS,
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
        "volumes": _volumes(args, config),
    }
    if args.has_vllm_router:
        spec["init_containers"] = [_vllm_router(args)]
    return spec


def _haproxy(args: RouterArgs, domain: pulumi.Input[str]) -> ContainerArgsDict:
    run = ["haproxy", "-db", "-f", f"{_CONFIG_DIR}/{CONFIG_FILE}"]
    if args.router.clients:
        # The key of the servers, for a client that does not know it; the image has no Python.
        run = ["sh", "-c", f'{haproxy.KEY_VARIABLE}="$(cat {api_key.PATH})" exec {" ".join(run)}']
    environment: list[EnvVarArgsDict] = []
    if args.kind == "leastRequest":
        environment.append({"name": haproxy.DOMAIN_VARIABLE, "value": domain})
    mounts: list[VolumeMountArgsDict] = [{"name": "config", "mount_path": _CONFIG_DIR, "read_only": True}]
    if reads_key(args):
        mounts.append(api_key.mount())
    mounts += [
        {"name": _client_store(client.name), "mount_path": f"{_CLIENTS_DIR}/{client.name}", "read_only": True}
        for client in args.router.clients
    ]
    health: ProbeArgsDict = {
        "http_get": {"path": haproxy.READY_PATH, "port": names.ROUTER_METRICS_PORT_NAME},
        "period_seconds": 5,
        "timeout_seconds": 5,
    }
    return {
        "name": "haproxy",
        "image": args.space.image(IMAGE),
        "command": [*run],
        "env": environment,
        "ports": [
            {"name": names.HTTP_PORT_NAME, "container_port": names.HTTP_PORT, "protocol": "TCP"},
            {"name": names.ROUTER_METRICS_PORT_NAME, "container_port": names.ROUTER_METRICS_PORT, "protocol": "TCP"},
        ],
        "resources": _resources(args),
        "security_context": _restricted(),
        "volume_mounts": mounts,
        "readiness_probe": {**health, "failure_threshold": 2},
        "liveness_probe": {**health, "failure_threshold": 12},
        # Load balancers remove the router first; the stop signal then closes its listeners, and its streams finish.
        "lifecycle": {"pre_stop": {"sleep": {"seconds": ROUTER_PRE_STOP_SECONDS}}},
    }


def _vllm_router(args: RouterArgs) -> ContainerArgsDict:
    """A sidecar without the key: it starts before HAProxy and ends after it, with the last stream."""
    run: list[pulumi.Input[str]] = [
        *vllm_router.router_command(
            args.server.name,
            "$(NAMESPACE)",
            max_in_flight=args.max_in_flight * args.slots,
        )
    ]
    return {
        "name": "vllm-router",
        # Its name has a registry, so the stack's Docker Hub prefix is not added.
        "image": args.router.image or "",
        "restart_policy": "Always",
        "command": run,
        "env": [{"name": "NAMESPACE", "value": args.space.namespace}],
        "resources": _resources(args),
        "security_context": _restricted(),
        "volume_mounts": [
            {"name": "tmp", "mount_path": "/tmp"},
            {"name": _API_ACCESS, "mount_path": _API_DIR, "read_only": True},
        ],
        "liveness_probe": {
            "exec_": {"command": ["python3", "-c", vllm_router.PROBE]},
            "period_seconds": 30,
            "timeout_seconds": 10,
            "failure_threshold": 3,
        },
    }


def _resources(args: RouterArgs) -> Manifest:
    amounts = {"cpu": str(args.router.cpu), "memory": f"{args.router.memory_gib}Gi", "ephemeral-storage": "1Gi"}
    return {"requests": amounts, "limits": dict(amounts)}


def _restricted() -> Manifest:
    return {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def _volumes(args: RouterArgs, config: str) -> list[VolumeArgsDict]:
    volumes: list[VolumeArgsDict] = [{"name": "config", "config_map": {"name": config}}]
    if args.has_vllm_router:
        volumes += [
            {"name": "tmp", "empty_dir": {}},
            {"name": _API_ACCESS, "projected": {"sources": [*_api_sources()]}},
        ]
    if reads_key(args) and args.server.key_store is not None:
        volumes.append(api_key.volume(args.server.key_store))
    volumes += [
        secret_files.volume(_client_store(client.name), _client_store(client.name)) for client in args.router.clients
    ]
    return volumes


def _api_sources() -> list[VolumeProjectionArgsDict]:
    """What the kubelet mounts into every container by itself: token, authority of the API server, namespace."""
    return [
        {"service_account_token": {"path": "token", "expiration_seconds": _API_SECONDS}},
        {"config_map": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downward_api": {"items": [{"path": "namespace", "field_ref": {"field_path": "metadata.namespace"}}]}},
    ]


def _client_store(client: str) -> str:
    return f"client-{client}"
