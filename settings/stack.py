"""All settings of one stack, as one typed value."""

from __future__ import annotations

from functools import cached_property
from math import ceil
from typing import Annotated

from pydantic import Field

from facts import node_room
from facts.machines import DEFAULT_MACHINE
from settings.names import APP_LABEL, label_value, stack_namespace
from settings.sections.benchmark import Benchmark
from settings.sections.budget import Budget
from settings.sections.capacity import Capacity, Ladder, Placement, placement
from settings.sections.cluster import Cluster
from settings.sections.gateway import Gateway
from settings.sections.machine import MachineType
from settings.sections.model import ChosenModel
from settings.sections.monitoring import Monitoring
from settings.sections.network import Network
from settings.sections.platform import Platform
from settings.sections.registry import Registry
from settings.sections.results import Results
from settings.sections.secret_stores import SecretManagerSecret, SecretStore
from settings.sections.section import Namespace, ProjectId, SecretVersion, Section, like
from settings.sections.server import PodResources, Server
from settings.sections.weights import Weights
from settings.serving import Serving, resolve

PLACEHOLDER_PROJECT = "your-project-id"
"""What the stack files carry for gcp:project; the same words as in the article's commands."""


MOST_LABELS = 50
"""Google Cloud takes 64 a resource; the program adds two, and GKE and Cloud Storage theirs. Source: Resource Manager, labels."""


class Settings(Section):
    """One stack: where it runs, on what capacity, which model it serves, and what stands around it."""

    stack: str
    """Name of the stack; from the engine, not from the stack file."""
    project: ProjectId
    """`gcp:project`: the Google Cloud project id."""
    region: Annotated[str, like(r"^[a-z]+-[a-z]+[0-9]+$", "a region, such as europe-west4")]
    """`gcp:region`: the region of network, cluster and registry."""
    zones: Annotated[
        tuple[Annotated[str, like(r"^[a-z]+-[a-z]+[0-9]+-[a-z]$", "a zone, such as europe-west4-b")], ...],
        Field(min_length=1),
    ]
    """Zones that have the machine for this stack; each gets its own copy of the weights volume."""
    namespace: Namespace = Field(default_factory=lambda given: stack_namespace(given["stack"]))
    """Kubernetes namespace of everything this stack adds to the cluster. Default: `vllm-dev` for a stack `dev`."""
    platform: Platform = Platform()
    """Where the cluster comes from."""
    network: Network = Network()
    """The VPC; unused where the stack joins a cluster."""
    cluster: Cluster = Cluster()
    """The cluster; unused where the stack joins one."""
    machine: MachineType = Field(default_factory=lambda: DEFAULT_MACHINE)
    """Machine type of the servers' nodes, e.g. `g2-standard-12`. Default: the article's, a4-highgpu-8g."""
    capacity: Capacity
    """How nodes are obtained. Required: on demand, which nobody would have to name, many machines cannot be had."""
    model: ChosenModel | None = None
    """The model to serve. Default: the profile's."""
    weights: Weights = Weights()
    """How the weights reach the GPUs."""
    server: Server = Server()
    """The vLLM server."""
    gateway: Gateway = Gateway()
    """The Inference Gateway."""
    benchmark: Benchmark = Benchmark()
    """The benchmark Job."""
    monitoring: Monitoring = Monitoring()
    """Managed Prometheus."""
    budget: Budget | None = None
    """A billing budget; none by default."""
    registry: Registry | None = None
    """A Docker Hub account for image pulls; anonymous by default."""
    results: Results = Results()
    """The bucket for benchmark results."""
    prices: dict[str, Annotated[float, Field(ge=0)]] = {}
    """Your own unit prices in USD, by the item's id in facts/data/prices.yaml, e.g. `{hyperdisk-ml-capacity: 0.10}` for a
    GiB-month. Default: the list price published for the stack's region; items without one make totals lower bounds."""
    labels: Annotated[
        dict[
            Annotated[
                str,
                like(
                    r"^[a-z][-_a-z0-9]{0,62}$",
                    "keys of 1 to 63 lower-case letters, digits, dashes and underscores, first a letter",
                ),
            ],
            Annotated[str, like(r"^[-_a-z0-9]{0,63}$", "up to 63 lower-case letters, digits, dashes and underscores")],
        ],
        Field(max_length=MOST_LABELS),
    ] = {}
    """Labels for every Google Cloud resource that takes them, e.g. `{team: inference}`; `app` and `stack` are the program's own."""
    has_hf_token: bool = False
    """True when the secret key `vllm-fleet:hfToken` is set; the value itself never enters the settings."""
    has_api_key: bool = False
    """True when the secret key `vllm-fleet:apiKey` is set."""

    @property
    def owns_platform(self) -> bool:
        """Whether this stack makes its own network and cluster."""
        return self.platform.stack is None and self.platform.kubeconfig is None

    @property
    def replicas(self) -> int:
        """Replicas this stack sizes things for: the number, the most that its autoscaler may ask for, or 1 where somebody else scales."""
        fixed = self.server.fixed_replicas
        if fixed != "external":
            return fixed
        return 1 if self.server.scaling.mode == "none" else self.server.scaling.max

    @property
    def own_replicas(self) -> int | None:
        """Replicas that this stack sets; None where the number has another owner."""
        replicas = self.server.replicas
        return None if replicas == "external" or self.server.scaling.mode != "none" else replicas

    @property
    def gpu_ceiling(self) -> int | None:
        """Most GPUs that the namespace may ask for: what the stack file asks for. None where the number has another owner, whom a
        ceiling would fight.
        """
        somebody_elses = self.own_replicas is None and self.server.scaling.mode == "none"
        return None if somebody_elses else self.replicas * self.gpus_per_replica

    @property
    def is_scaled(self) -> bool:
        """Whether an autoscaler of this stack's own says how many replicas there are now; not while the fleet is paused."""
        return self.server.scaling.mode != "none" and self.server.replicas != 0

    @property
    def scales_by_keda(self) -> bool:
        """Whether this stack's servers are scaled by KEDA."""
        return self.server.scaling.mode != "none" and self.server.scaling.mechanism == "keda"

    @property
    def makes_keda(self) -> bool:
        """Whether KEDA is installed with this stack's cluster: as asked, else where it scales by it."""
        return self.owns_platform and (self.scales_by_keda if self.cluster.keda is None else self.cluster.keda)

    @property
    def gpus_per_replica(self) -> int:
        """GPUs of one server pod."""
        return self.server.gpus or self.machine.gpus

    @property
    def nodes(self) -> int:
        """Nodes at full size: pods share one where they take part of its GPUs."""
        return self.nodes_for(self.replicas)

    def nodes_for(self, replicas: int) -> int:
        """Nodes of so many replicas."""
        return ceil(replicas * self.gpus_per_replica / self.machine.gpus)

    @property
    def gpus(self) -> int:
        """GPUs of those nodes."""
        return self.nodes * self.machine.gpus

    @cached_property
    def resources(self) -> PodResources:
        """What a server pod asks of its node beside GPUs."""
        return self.server.resources.of_pod(self.machine, self.gpus_per_replica)

    @property
    def local_ssd(self) -> bool:
        """Whether nodes get local SSDs that they have only where asked: where the pods need more than the boot disk leaves."""
        share = node_room.of_machine(self.machine).share(self.gpus_per_replica, self.machine.gpus)
        # A ComputeClass is not asked for them here.
        asked = self.machine.local_ssd == "optional" and not isinstance(self.capacity, Ladder)
        return asked and self.resources.ephemeral_storage_gib > share.ephemeral_gib

    @property
    def proxy_only_subnet(self) -> bool:
        """Whether the proxy-only subnet exists: as asked, else with the gateway."""
        return self.gateway.enabled if self.network.proxy_only.enabled is None else self.network.proxy_only.enabled

    @property
    def guards_v1_only(self) -> bool:
        """Whether an API key is in force, which vLLM checks on paths under /v1 and nowhere else."""
        return self.api_key_store is not None

    @property
    def api_key_secret(self) -> SecretManagerSecret | None:
        """The API key's secret, where Secret Manager holds it."""
        return self._of_project(self.server.api_key_secret)

    @property
    def hf_token_secret(self) -> SecretManagerSecret | None:
        """The Hugging Face token's secret, where Secret Manager holds it."""
        return self._of_project(self.weights.token_secret)

    @property
    def api_key_store(self) -> SecretStore | None:
        """Where pods get the API key from; None where nothing asks for one."""
        return _store(self.api_key_secret, self.has_api_key)

    @property
    def hf_token_store(self) -> SecretStore | None:
        """Where pods get the Hugging Face token from; None where the stack has none: Qwen3.5-27B-FP8 is public."""
        return _store(self.hf_token_secret, self.has_hf_token)

    def _of_project(self, secret: SecretVersion | None) -> SecretManagerSecret | None:
        if secret is None:
            return None
        return SecretManagerSecret(project=self.project, name=secret.name, version=secret.version)

    @property
    def object_labels(self) -> dict[str, str]:
        """Labels of this stack's Kubernetes objects. `app` names the server; objects of other workloads have their own there."""
        return {
            APP_LABEL: self.server.name,
            "app.kubernetes.io/part-of": "vllm-fleet",
            "app.kubernetes.io/instance": label_value(self.stack),
            "app.kubernetes.io/managed-by": "pulumi",
        }

    @cached_property
    def placement(self) -> Placement:
        """What machine and capacity mode mean for the pods."""
        return placement(
            self.capacity,
            self.namespace,
            self.zones,
            machine=self.machine,
            gpus=self.gpus_per_replica,
            local_ssd=self.local_ssd,
        )

    @cached_property
    def serving(self) -> Serving:
        """The profile with this stack's overrides: engine, model, needs."""
        return resolve(self.stack, self.server, self.model, self.machine)


def _store(secret: SecretManagerSecret | None, in_configuration: bool) -> SecretStore | None:
    if secret is not None:
        return "secret-manager"
    return "kubernetes" if in_configuration else None
