"""Facade `VllmFleet`: network, cluster, weights and vLLM servers in one component."""

# No `from __future__ import annotations` in a facade: the schema is made of its annotations, and a text is none.

from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi import ResourceOptions

from facades.inputs import PACKAGE, CapacityMode, secret, settings_of
from facts.signals.catalogue import catalogue
from infra.deletion_protection import DeletionProtection, DeletionProtectionArgs
from infra.naming import Place, labels_of
from infra.platform import OwnPlatform, OwnPlatformArgs
from infra.workload_access import WorkloadAccess, WorkloadAccessArgs
from settings.derived.figures import figures
from settings.derived.google_cloud_needs import required_apis
from settings.derived.traffic import traffic
from settings.derived.watched import watched
from settings.server_arguments import server_arguments
from workloads.serving_stack import ServingStack, ServingStackArgs


class VllmFleetArgs(TypedDict):
    """Inputs of `VllmFleet`."""

    project: str
    """Google Cloud project id."""
    zones: list[str]
    """Zones that have the machine, all of one region, e.g. ["europe-west4-b"]: each gets a weights volume."""
    capacity: CapacityMode
    """How GPU nodes are obtained."""
    machine: str
    """Machine type of the nodes, e.g. "g2-standard-12": its GPUs are the bill."""
    reservation: NotRequired[str]
    """Name of the reservation, with capacity reservation, calendar or ladder."""
    run_duration_seconds: NotRequired[int]
    """How long a node may live, 600 to 604800 seconds, with capacity flex-start or ladder. Required with flex-start; ladder: 604800."""
    spot_rung: NotRequired[bool]
    """Whether capacity ladder ends at Spot. Default: true."""
    model: NotRequired[str]
    """Hugging Face repository. Default: the profile's model."""
    revision: NotRequired[str]
    """Commit of that repository, 40 hexadecimal digits. Default: the catalogue's; required for other models."""
    model_size_gb: NotRequired[float]
    """Size of the repository's files in GB (10**9 bytes). Default: the catalogue's; required for other models."""
    model_config: NotRequired[str]
    """Path of the model's config.json, from the program's folder. Default: the catalogue's shape; required for other models."""
    reasoning_parser: NotRequired[str]
    """vLLM's parser of the model's reasoning. Default: the catalogue's, if the profile has one; none for other models."""
    tool_call_parser: NotRequired[str]
    """vLLM's parser of the model's tool calls. Default: the catalogue's, if the profile has one; none for other models."""
    profile: NotRequired[str]
    """Set of engine flags: record, serve-chat, serve-code, serve-batch and others. Default: record."""
    engine: NotRequired[dict[str, Any]]
    """Engine settings that differ from the profile's, by their camelCase names, e.g. {maxModelLen: 8192}."""
    reasons: NotRequired[dict[str, str]]
    """Why the engine needs an option or variable that needs a reason, e.g. {"--trust-remote-code": "..."}. Default: none."""
    replicas: NotRequired[int]
    """Server pods, 0 to 1000; 0 pauses: no GPU is paid for, the weights stay. Default: 1."""
    server_name: NotRequired[str]
    """Name of Deployment and Service. Default: qwen35-server for Qwen3.5, else the model's name with -server."""
    concurrency_per_replica: NotRequired[int]
    """Requests in flight at peak for each replica. Default: the profile's."""
    startup_minutes: NotRequired[int]
    """Minutes that a pod may take from start to ready, 5 to 120. Default: 30."""
    internal_load_balancer: NotRequired[bool]
    """Whether an internal load balancer of the VPC serves the pods, too. Default: false."""
    weights_size_gib: NotRequired[int]
    """Size of the weights volume in GiB, 4 to 65536; the model and a tenth more. Default: 64."""
    weights_throughput_mibps: NotRequired[int]
    """Read throughput of the volume in MiB/s, 400 to 2097152, shared by all servers of a zone. Default: 2400."""
    hf_token: NotRequired[pulumi.Input[str]]
    """Hugging Face token for a gated model; kept as a secret. Default: none."""
    api_key: NotRequired[pulumi.Input[str]]
    """API key that servers require under /v1; kept as a secret. Default: none."""
    namespace: NotRequired[str]
    """Kubernetes namespace that is made. Default: vllm, stack and name, e.g. vllm-dev-fleet."""
    release_channel: NotRequired[str]
    """GKE release channel: RAPID, REGULAR or STABLE. Default: RAPID."""
    deletion_protection: NotRequired[bool]
    """Whether the cluster refuses to be destroyed. Default: true."""
    labels: NotRequired[dict[str, str]]
    """Labels of Google Cloud resources, e.g. {team: inference}. Default: none; app and stack are added."""


class VllmFleet(pulumi.ComponentResource):
    """A vLLM fleet: network, GKE Autopilot cluster, weights volume, servers and their monitoring.

    Without gateway, benchmark, autoscaling, canary, alerts and budget: those are the program's.
    """

    endpoint: pulumi.Output[str]
    """URL of the Service inside the cluster, without a path; its API is OpenAI's."""
    model: pulumi.Output[str]
    """Name by which requests call the model."""
    namespace: pulumi.Output[str]
    """Kubernetes namespace of the servers."""
    cluster_name: pulumi.Output[str]
    """Name of the GKE cluster."""
    kubeconfig: pulumi.Output[str]
    """Kubeconfig of the cluster, a secret; it names gke-gcloud-auth-plugin in place of credentials."""

    def __init__(self, name: str, args: VllmFleetArgs, opts: ResourceOptions | None = None) -> None:
        settings = settings_of("VllmFleet", name, args)
        super().__init__(f"{PACKAGE}:index:VllmFleet", name, None, opts)
        labels = labels_of(settings.stack, settings.labels)
        place = Place(project=settings.project, region=settings.region, name_prefix=settings.stack, labels=labels)
        own = OwnPlatform(
            f"{name}-platform",
            OwnPlatformArgs(
                place=place, namespace=settings.namespace, apis=required_apis(settings), cluster=settings.cluster
            ),
            ResourceOptions(parent=self),
        )
        platform = own.outputs
        access = WorkloadAccess(
            f"{name}-access",
            WorkloadAccessArgs(
                project=settings.project,
                project_number=platform.project_number,
                workload_pool=platform.workload_pool,
                namespace=settings.namespace,
            ),
            ResourceOptions(parent=self, depends_on=[own.services]),
        )
        serving = ServingStack(
            f"{name}-",
            ServingStackArgs(
                namespace=settings.namespace,
                labels=settings.object_labels,
                image_prefix=platform.image_prefix,
                project=settings.project,
                traffic=traffic(settings),
                gpus=settings.gpu_ceiling,
                capacity=settings.capacity,
                long_notice=settings.has_long_notice,
                returns=settings.returns,
                zones=settings.zones,
                volume=settings.weights,
                disk_labels=settings.labels,
                hf_token=secret(args, "hf_token"),
                server=server_arguments(settings),
                api_key=secret(args, "api_key"),
                monitoring=settings.monitoring,
                signals=catalogue(watched(settings, figures(settings))),
            ),
            ResourceOptions(parent=self, providers={"kubernetes": own.kubernetes}, depends_on=[access]),
        )
        whole = DeletionProtectionArgs(
            enabled=settings.cluster.deletion_protection, covers=[own, access, *serving.components]
        )
        DeletionProtection(f"{name}-deletion-protection", whole, ResourceOptions(parent=self))
        self.endpoint, self.cluster_name = serving.endpoint, platform.cluster_name
        self.namespace = serving.namespace.name
        self.model = pulumi.Output.from_input(settings.serving.model.id)
        self.kubeconfig = pulumi.Output.secret(platform.kubeconfig)
        self.register_outputs(
            {
                "endpoint": self.endpoint,
                "model": self.model,
                "namespace": self.namespace,
                "clusterName": self.cluster_name,
                "kubeconfig": self.kubeconfig,
            }
        )
