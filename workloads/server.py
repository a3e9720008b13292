"""The vLLM server on the cluster: Deployment, Service, disruption budget, and the store of the API key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_kubernetes as k8s

from settings.settings import Settings
from workloads import api_key, names
from workloads.manifest import Manifest
from workloads.server_pod import PROVISIONING_MINUTES, declared_needs, drain, pod_template

if TYPE_CHECKING:
    from workloads.weights import WeightsMount

REPLICAS_ASSUMED = 12
"""Replicas that an update is given time for where somebody else owns the number. Assumed: the article's largest fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerArgs:
    """Arguments of `Server`."""

    settings: Settings
    namespace: pulumi.Input[str]
    image_prefix: pulumi.Input[str]
    """Repository path in front of the image's own, without a slash at its end."""
    weights: WeightsMount | None
    """How a pod mounts the weights; None where it downloads them."""
    api_key: pulumi.Output[str] | None = None
    """The secret config value, where the key does not come from Secret Manager."""


class Server(pulumi.ComponentResource):
    """One vLLM server per A4 node behind one Service. It neither creates nodes nor writes weights."""

    deployment: k8s.apps.v1.Deployment
    service: k8s.core.v1.Service
    endpoint: pulumi.Output[str]
    """URL of the Service inside the cluster, without a path."""

    def __init__(self, name: str, args: ServerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Server", name, None, opts)
        settings = args.settings
        server = settings.server.name
        child = pulumi.ResourceOptions(parent=self)
        metadata: Manifest = {"name": server, "namespace": args.namespace, "labels": names.labels(settings, server)}

        needed: list[pulumi.Resource] = [] if args.weights is None else [*args.weights.depends_on]
        if settings.guards_v1_only:
            needed.append(self._key_store(name, args, child))
        # Pulumi would wait ten minutes for a Service's first ready pod. A first start takes longer, a paused fleet has
        # none, and the Deployment waits for its pods anyway.
        at_once = {"pulumi.com/skipAwait": "true"}
        self.service = k8s.core.v1.Service(
            f"{name}-service",
            metadata=metadata | {"annotations": at_once},
            spec=service_spec(settings),
            opts=child,
        )
        if settings.server.internal_load_balancer:
            k8s.core.v1.Service(
                f"{name}-internal",
                metadata=metadata
                | {
                    "name": f"{server}-internal",
                    "annotations": {**at_once, "networking.gke.io/load-balancer-type": "Internal"},
                },
                spec=service_spec(settings) | {"type": "LoadBalancer", "externalTrafficPolicy": "Local"},
                opts=child,
            )
        k8s.policy.v1.PodDisruptionBudget(
            f"{name}-disruption-budget", metadata=metadata, spec=disruption_budget(settings), opts=child
        )
        self.deployment = k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=metadata | {"annotations": declared_needs(settings)},
            spec=deployment_spec(args),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=needed,
                custom_timeouts=timeouts(settings),
                # With another owner, the number stays what it is on the cluster, also in the update that hands it over:
                # an apply that merely leaves it out would fall back to one replica.
                ignore_changes=["spec.replicas"] if settings.server.replicas == "external" else None,
            ),
        )
        self.endpoint = pulumi.Output.format(
            "http://{0}.{1}.svc.cluster.local:{2}", self.service.metadata.name, args.namespace, names.HTTP_PORT
        )
        self.register_outputs({"endpoint": self.endpoint})

    def _key_store(self, name: str, args: ServerArgs, child: pulumi.ResourceOptions) -> pulumi.Resource:
        """What the pods' API-key volume names."""
        metadata: Manifest = {
            "name": api_key.SECRET_NAME,
            "namespace": args.namespace,
            "labels": names.labels(args.settings, args.settings.server.name),
        }
        if args.settings.server.api_key_secret is not None:
            return k8s.apiextensions.CustomResource(
                f"{name}-api-key-class",
                api_version="secrets-store.csi.x-k8s.io/v1",
                kind="SecretProviderClass",
                metadata=metadata,
                spec=api_key.provider_class_spec(args.settings),
                opts=child,
            )
        if args.api_key is None:
            raise ValueError("Server needs api_key or settings.server.api_key_secret; settings.guards_v1_only says so")
        return k8s.core.v1.Secret(
            f"{name}-api-key",
            metadata=metadata,
            type="Opaque",
            string_data={api_key.SECRET_KEY: args.api_key},
            opts=child,
        )


def image_of(settings: Settings, prefix: pulumi.Input[str]) -> pulumi.Output[str]:
    """The vLLM image in the stack's registry."""
    return pulumi.Output.concat(prefix, image_path(settings))


def image_path(settings: Settings) -> str:
    """What follows the registry's prefix: the tag for people, the digest for the machine."""
    image = settings.server.image
    return f"/{image.repository}:{image.tag}@{image.digest}"


def deployment_spec(args: ServerArgs) -> Manifest:
    """Spec of the Deployment. Without `replicas` where somebody else scales."""
    settings = args.settings
    spec: dict[str, Any] = {
        "selector": {"matchLabels": names.selector(settings.server.name)},
        # A surge pod would need a spare node with eight GPUs: one stops before the next starts.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "revisionHistoryLimit": 3,
        # Kubernetes' own ten minutes would call every normal start a failure.
        "progressDeadlineSeconds": progress_deadline_seconds(settings),
        "template": pod_template(settings, image=image_of(settings, args.image_prefix), weights=args.weights),
    }
    if settings.server.replicas != "external":
        spec["replicas"] = settings.server.replicas
    return spec


def service_spec(settings: Settings) -> Manifest:
    """Spec of the Service: the article's round robin over the replicas that are ready."""
    return {
        "type": "ClusterIP",
        "selector": names.selector(settings.server.name),
        "ports": [names.http_service_port()],
    }


def disruption_budget(settings: Settings) -> Manifest:
    """Spec of the PodDisruptionBudget: one replica at a time, also when it is the only one.

    A budget of zero would block node upgrades until GKE overrules it after an hour. It binds evictions alone: a Spot
    preemption asks nobody.
    """
    return {
        "maxUnavailable": 1,
        "selector": {"matchLabels": names.selector(settings.server.name)},
        # A pod that is still loading serves nobody and must not hold up a drain.
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }


def progress_deadline_seconds(settings: Settings) -> int:
    """Longest time without a further pod becoming ready: the old one's end, a node, a start."""
    return drain(settings).grace_seconds + (PROVISIONING_MINUTES + settings.server.startup_minutes) * 60


def timeouts(settings: Settings) -> pulumi.CustomTimeouts:
    """How long Pulumi waits. All replicas of a new fleet start at once; an update replaces them one after another."""
    replicas = REPLICAS_ASSUMED if settings.server.replicas == "external" else max(1, settings.server.replicas)
    grace_minutes = -(-drain(settings).grace_seconds // 60)
    create = PROVISIONING_MINUTES + settings.server.startup_minutes
    update = PROVISIONING_MINUTES + replicas * (grace_minutes + settings.server.startup_minutes)
    return pulumi.CustomTimeouts(create=f"{create}m", update=f"{update}m", delete=f"{grace_minutes + 5}m")
