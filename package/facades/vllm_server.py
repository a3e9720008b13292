"""Facade `VllmServer`: vLLM servers behind one Service."""

# No `from __future__ import annotations` in a facade: the schema is made of its annotations, and a text is none.

from typing import Any, NotRequired, TypedDict

import pulumi

from facades.inputs import EXISTING_CLUSTER, PACKAGE, CapacityMode, on_callers_cluster, secret, settings_of
from facts.names import SERVER_ACCOUNT
from settings.sections.weights import MOUNT_PATH
from settings.server_arguments import server_arguments
from workloads.namespace import service_account
from workloads.server.server import Server, ServerArgs
from workloads.space import Space
from workloads.weights.weights import WeightsMount, model_path


class VllmServerArgs(TypedDict):
    """Inputs of `VllmServer`."""

    zones: list[str]
    """Zones that have the weights, all of one region, e.g. ["europe-west4-b"]."""
    namespace: str
    """Namespace of the servers. It must exist; the account `vllm-server` is made."""
    capacity: CapacityMode
    """How GPU nodes are obtained."""
    machine: str
    """Machine type of the nodes, e.g. "g2-standard-12": its GPUs are the bill."""
    weights_claim: pulumi.Input[str]
    """Name of the PersistentVolumeClaim that holds the model: `claim` of `ModelWeights`."""
    reservation: NotRequired[str]
    """Name of the reservation, with capacity reservation or calendar."""
    run_duration_seconds: NotRequired[int]
    """How long a node may live, 600 to 604800 seconds, with capacity flex-start."""
    spot_rung: NotRequired[bool]
    """Whether the ladder ends at Spot, as its `CapacityLadder` does. Default: true."""
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
    """Server pods, 0 to 1000; 0 pauses. Default: 1."""
    server_name: NotRequired[str]
    """Name of Deployment and Service. Default: qwen35-server for Qwen3.5, else the model's name with -server."""
    concurrency_per_replica: NotRequired[int]
    """Requests in flight at peak for each replica. Default: the profile's."""
    startup_minutes: NotRequired[int]
    """Minutes that a pod may take from start to ready, 5 to 120. Default: 30."""
    internal_load_balancer: NotRequired[bool]
    """Whether an internal load balancer of the VPC serves the pods, too. Default: false."""
    api_key: NotRequired[pulumi.Input[str]]
    """API key that servers require under /v1; kept as a secret. Default: none."""
    image_prefix: NotRequired[pulumi.Input[str]]
    """What precedes a Docker Hub image's name, e.g. "europe-west4-docker.pkg.dev/PROJECT/REPOSITORY". Default: Docker Hub."""


class VllmServer(pulumi.ComponentResource):
    """vLLM servers behind one Service, on the weights of `ModelWeights`. Needs your cluster's Kubernetes provider.

    Makes neither namespace, network policies, quota nor monitoring.
    """

    endpoint: pulumi.Output[str]
    """URL of the Service inside the cluster, without a path; its API is OpenAI's."""
    model: pulumi.Output[str]
    """Name by which requests call the model."""

    def __init__(self, name: str, args: VllmServerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        on_callers_cluster("VllmServer", opts)
        settings = settings_of("VllmServer", name, args, EXISTING_CLUSTER, elsewhere=("weights",))
        super().__init__(f"{PACKAGE}:index:VllmServer", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        labels, serving = settings.object_labels, settings.serving
        account = service_account(f"{name}-account", SERVER_ACCOUNT, settings.namespace, labels, child)
        server = Server(
            f"{name}-server",
            ServerArgs(
                **server_arguments(settings),
                space=Space(
                    namespace=settings.namespace, labels=labels, image_prefix=args.get("image_prefix", "docker.io")
                ),
                weights=WeightsMount(
                    claim_name=args["weights_claim"],
                    mount_path=MOUNT_PATH,
                    model_path=model_path(serving.model),
                    depends_on=(),
                    written_here=False,
                ),
                api_key=secret(args, "api_key"),
            ),
            pulumi.ResourceOptions(parent=self, depends_on=[account]),
        )
        self.endpoint = server.endpoint
        self.model = pulumi.Output.from_input(serving.model.id)
        self.register_outputs({"endpoint": self.endpoint, "model": self.model})
