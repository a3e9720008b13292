"""The vLLM server: service account, Deployment, Service, disruption budget and API key."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import pulumi
import pulumi_kubernetes as k8s

from facts.capacity import quota_retry_seconds
from settings.derived.drain import Drain
from workloads import names, secret_files
from workloads.server import api_key, compile_cache, ranks
from workloads.server.args import ServerArgs as ServerArgs
from workloads.server.pod import pod_template

if TYPE_CHECKING:
    from pulumi_kubernetes.apps.v1 import DeploymentSpecArgsDict
    from pulumi_kubernetes.core.v1 import ServiceSpecArgsDict
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
    from pulumi_kubernetes.policy.v1 import PodDisruptionBudgetSpecArgsDict

REPLICAS_ASSUMED = 12
"""Replicas assumed for the update timeout if nothing bounds their number. Assumed: the article's largest fleet."""


AT_ONCE = {"pulumi.com/skipAwait": "true"}
"""Pulumi would wait ten minutes for a Service's first ready pod. A first start takes longer, a paused fleet has none, and the Deployment
already waits for its pods."""


class Server(pulumi.ComponentResource):
    """vLLM servers behind one Service. It creates no nodes and writes no weights."""

    namespace: pulumi.Input[str]
    name: str
    """Name of Deployment and Service, and value of the pods' label `app`."""
    image: pulumi.Input[str]
    """Image of every replica, with registry and digest."""
    deployment: k8s.apps.v1.Deployment
    endpoint: pulumi.Output[str]
    """URL of the Service inside the cluster, without a path."""
    key: secret_files.Stored | None
    """The stored API key; None without one."""
    drain: Drain
    """Shutdown of a pod."""
    ports: tuple[int, ...]
    """Ports of a pod's API: one, or one per rank."""
    status_port: int
    """Port with the health and the metrics of a whole pod."""
    has_pod_router: bool
    """Whether a router in each pod asks prefill and then decode. It checks no key and serves more paths than /v1."""
    node_exists_after: tuple[pulumi.Resource, ...]
    """A resource that becomes ready only after a pod has had a node: the weights' volume if a pod wrote it, else the Deployment, which of
    no pods needs none."""

    def __init__(self, name: str, args: ServerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Server", name, None, opts)
        self.namespace, self.name, self.image, self.drain = args.namespace, args.name, args.image, args.drain
        self.ports, self.status_port, self.has_pod_router = args.ports, args.status_port, args.shape is not None
        child = pulumi.ResourceOptions(parent=self)
        metadata: ObjectMetaArgsDict = {
            "name": args.name,
            "namespace": args.namespace,
            "labels": names.own_labels(args.name),
        }
        needed: list[pulumi.Resource] = [] if args.weights is None else [*args.weights.depends_on]
        if args.creates_account:
            # That of a release by its own name: a canary's stays the same resource when the servers take its release over.
            resource = f"{name}-account" if args.compile_cache is None else args.service_account
            needed.append(names.service_account(resource, args.service_account, args.namespace, child))
        self.key = None
        if args.api_key is not None:
            self.key = secret_files.stored(
                args.api_key,
                key=api_key.SECRET_KEY,
                secret_name=f"{name}-api-key",
                class_name=f"{name}-api-key-class",
                metadata=metadata | {"name": api_key.SECRET_NAME},
                opts=child,
            )
            needed.append(self.key.object)
        programs = {
            "compile-cache": compile_cache if args.compile_cache is not None else None,
            "ranks": ranks if args.has_rank_servers else None,
        }
        needed += [
            k8s.core.v1.ConfigMap(
                f"{name}-{what}",
                metadata=metadata | {"name": in_pod.config_map_name(args.name)},
                immutable=True,
                data=in_pod.program(),
                opts=child,
            )
            for what, in_pod in programs.items()
            if in_pod is not None
        ]
        service = k8s.core.v1.Service(
            f"{name}-service",
            metadata=metadata | {"annotations": AT_ONCE},
            spec=service_spec(args.name, len(args.ports)),
            opts=child,
        )
        if args.internal_load_balancer:
            internal = {**AT_ONCE, "networking.gke.io/load-balancer-type": "Internal"}
            k8s.core.v1.Service(
                f"{name}-internal",
                metadata=metadata | {"name": f"{args.name}-internal", "annotations": internal},
                spec=service_spec(args.name) | {"type": "LoadBalancer", "external_traffic_policy": "Local"},
                opts=child,
            )
        k8s.policy.v1.PodDisruptionBudget(
            f"{name}-disruption-budget", metadata=metadata, spec=disruption_budget(args.name), opts=child
        )
        self.deployment = k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=metadata | {"annotations": {**args.annotations, **args.deployment_annotations}},
            spec=deployment_spec(args, None if self.key is None else self.key.version),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=needed,
                custom_timeouts=timeouts(args),
                # If managed externally, the live number stays, also in the update that hands it over:
                # an apply without the field would reset it to one replica.
                ignore_changes=["spec.replicas"] if args.replicas is None else None,
            ),
        )
        weights = args.weights
        self.node_exists_after = weights.depends_on if weights and weights.written_here else (self.deployment,)
        self.endpoint = pulumi.Output.format(
            "http://{0}.{1}.svc.cluster.local:{2}",
            names.once_created(service, args.name),
            args.namespace,
            names.HTTP_PORT,
        )
        self.register_outputs({"endpoint": self.endpoint})


def deployment_spec(args: ServerArgs, key_version: pulumi.Input[str] | None = None) -> DeploymentSpecArgsDict:
    """Spec of the Deployment, without `replicas` if managed externally."""
    spec: DeploymentSpecArgsDict = {
        "selector": {"match_labels": names.selector(args.name)},
        # A surge pod would need spare GPUs, so a pod stops before its successor starts.
        "strategy": {"type": "RollingUpdate", "rolling_update": {"max_surge": 0, "max_unavailable": 1}},
        "revision_history_limit": 3,
        # Kubernetes' default of ten minutes would fail every normal start.
        "progress_deadline_seconds": progress_deadline_seconds(args),
        "template": pod_template(args, key_version),
    }
    if args.replicas is not None:
        spec["replicas"] = args.replicas
    elif args.starts_empty:
        # Kubernetes' default of one would rent a machine until the autoscaler first looks. Later values are the autoscaler's.
        spec["replicas"] = 0
    return spec


def service_spec(server: str, ports: int = 1) -> ServiceSpecArgsDict:
    """Spec of the Service: round robin over the ready replicas, as in the article. A port of several reaches one rank of a replica."""
    return {
        "type": "ClusterIP",
        "selector": names.selector(server),
        "ports": [names.http_service_port(), *ranks.service_ports(ports)],
    }


def disruption_budget(server: str) -> PodDisruptionBudgetSpecArgsDict:
    """Spec of the PodDisruptionBudget: one replica at a time, even if it is the only one.

    A budget of zero would block node upgrades until GKE overrides it after an hour. It applies to evictions only, not to Spot
    preemptions.
    """
    return {
        "max_unavailable": 1,
        "selector": {"match_labels": names.selector(server)},
        # A pod that is still loading must not block a drain.
        "unhealthy_pod_eviction_policy": "AlwaysAllow",
    }


def progress_deadline_seconds(args: ServerArgs) -> int:
    """Longest time between two pods becoming ready: shutdown, node, start."""
    return args.drain.grace_seconds + (args.placement.provisioning_minutes + args.startup_minutes) * 60


def timeouts(args: ServerArgs) -> pulumi.CustomTimeouts:
    """Pulumi's timeouts. A new fleet's replicas start in parallel; an update replaces them one by one.

    An update waits for its timeout where a replica does not become ready, and holds the stack's lock: the provider (pulumi-kubernetes
    4.34, await/deployment.go) logs an exceeded progress deadline and waits on. So it is the likely time of all replicas, where the GPU
    quota admits each only after the old one is gone, and no less than the limit of one.
    """
    replicas = max(1, (args.max_replicas or REPLICAS_ASSUMED) if args.replicas is None else args.replicas)
    grace_minutes = -(-args.drain.grace_seconds // 60)
    create = args.placement.provisioning_minutes + args.startup_minutes
    each = quota_retry_seconds(args.drain.stream_seconds) + args.likely_start_seconds
    update = max(grace_minutes + create, ceil(replicas * each / 60))
    return pulumi.CustomTimeouts(create=f"{create}m", update=f"{update}m", delete=f"{grace_minutes + 5}m")
