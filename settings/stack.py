"""All settings of one stack, as one typed value."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import cached_property
from math import ceil
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from facts import node_room
from facts.figures import Routing
from facts.gke_releases import has_extended_shutdown
from facts.machines import DEFAULT_MACHINE
from facts.names import (
    CANARY_ENDING,
    HTTP_PORT,
    STATUS_PORT,
    fitted,
    server_name,
    stack_labels,
    stack_namespace,
)
from facts.sizing import CACHE_SAVER_DISK_GIB, POD_ROUTER_DISK_GIB
from settings.profiles import UnknownProfileError, profile
from settings.sections.batch import Batch
from settings.sections.benchmark import Benchmark
from settings.sections.budget import Budget
from settings.sections.capacity import Capacity, ComputeClassMode, Placement, placement
from settings.sections.cluster import Cluster
from settings.sections.endpoint import Endpoint, EndpointKind
from settings.sections.gateway import Gateway
from settings.sections.machine import MachineType
from settings.sections.model import ChosenModel
from settings.sections.monitoring import Monitoring
from settings.sections.network import Network
from settings.sections.platform import Platform
from settings.sections.registry import Registry
from settings.sections.results import Results
from settings.sections.rollout import Rollout
from settings.sections.scaling import Scaling
from settings.sections.secret_stores import SecretManagerSecret, SecretStore
from settings.sections.section import Namespace, ProjectId, SecretVersion, Section, like
from settings.sections.server import PodResources, Server
from settings.sections.spending import Spending
from settings.sections.weights import Weights
from settings.serving import Serving, resolve
from settings.shaped_engine import answering_engines

PROGRAM_LABELS = ("app", "stack")
"""Keys that `Settings.google_labels` sets."""
MOST_LABELS = 50
"""Google Cloud's maximum is 64 a resource; the program, GKE and Cloud Storage add some. Source: Resource Manager, labels."""


def _is_free(label: str) -> str:
    """The label's key. Raises ValueError for one that is set by the program or by Google."""
    if label in PROGRAM_LABELS or label.startswith("goog"):
        raise ValueError(
            f"a key other than {' and '.join(PROGRAM_LABELS)}, which the program sets, and goog*, which Google sets"
        )
    return label


class Settings(Section):
    """Settings of one stack."""

    stack: str
    """Name of the stack, from the engine."""
    project: ProjectId
    """Google Cloud project id."""
    region: Annotated[str, like(r"^[a-z]+-[a-z]+[0-9]+$", "a region, such as europe-west4")]
    """Region of network, cluster and registry, e.g. europe-west4."""
    zones: Annotated[
        tuple[Annotated[str, like(r"^[a-z]+-[a-z]+[0-9]+-[a-z]$", "a zone, such as europe-west4-b")], ...],
        Field(min_length=1),
    ]
    """Zones of the servers' nodes; each gets a copy of the weights volume. The machine type must be available there."""
    namespace: Namespace = Field(default_factory=lambda given: stack_namespace(given["stack"]))
    """Kubernetes namespace of this stack's objects. Default: `vllm-dev` for a stack `dev`."""
    platform: Platform = Platform()
    """The cluster, if this stack does not create it."""
    network: Network = Network()
    """The VPC; not used if the stack joins a cluster."""
    cluster: Cluster = Cluster()
    """The Autopilot cluster; not used if the stack joins a cluster."""
    machine: MachineType = Field(default_factory=lambda: DEFAULT_MACHINE)
    """Machine type of the servers' nodes, e.g. `g2-standard-12`. Default: the article's, a4-highgpu-8g."""
    capacity: Capacity
    """Provisioning mode of the nodes, e.g. `{mode: spot}`. Required, because many machine types are not sold on demand."""
    model: ChosenModel | None = None
    """The model to serve. Default: the profile's."""
    weights: Weights = Weights()
    """The model weights: source, volume and download."""
    server: Server = Field(default=Server(), validate_default=True)
    """The vLLM server."""
    gateway: Gateway = Gateway()
    """The Inference Gateway."""
    endpoint: Endpoint = Endpoint()
    """What chooses a server for each request."""
    benchmark: Benchmark = Benchmark()
    """The benchmark Job."""
    batch: Batch = Batch()
    """Documents to process to their end."""
    monitoring: Monitoring = Monitoring()
    """Managed Prometheus, dashboard and alerts."""
    rollout: Rollout | None = None
    """A canary of the next release. Default: none."""
    budget: Budget | None = None
    """A billing budget. Default: none."""
    spending: Spending | None = None
    """A limit at which the fleet is paused. Default: none."""
    registry: Registry | None = None
    """A Docker Hub account for image pulls. Default: anonymous pulls."""
    results: Results = Results()
    """The bucket for benchmark results."""
    prices: dict[str, Annotated[float, Field(ge=0, le=1e9)]] = {}
    """Your unit prices in USD, by item id of facts/data/prices.yaml, e.g. `{hyperdisk-ml-capacity: 0.10}` for a GiB-month. Default: the
    list price in the stack's region; without one, totals are lower bounds."""
    labels: Annotated[
        dict[
            Annotated[
                str,
                like(
                    r"^[a-z][-_a-z0-9]{0,62}$",
                    "keys of 1 to 63 lowercase letters, digits, dashes and underscores, starting with a letter",
                ),
                AfterValidator(_is_free),
            ],
            Annotated[str, like(r"^[-_a-z0-9]{0,63}$", "up to 63 lowercase letters, digits, dashes and underscores")],
        ],
        Field(max_length=MOST_LABELS),
    ] = {}
    """Labels for every Google Cloud resource that supports them, e.g. `{team: inference}`. The program sets `app` and `stack`."""
    has_hf_token: bool = False
    """Whether the secret key `vllm-fleet:hfToken` is set; settings never contain the value."""
    has_api_key: bool = False
    """Whether the secret key `vllm-fleet:apiKey` is set."""
    has_slack_token: bool = False
    """Whether the secret key `vllm-fleet:slackToken` is set."""
    has_pagerduty_key: bool = False
    """Whether the secret key `vllm-fleet:pagerdutyKey` is set."""

    @field_validator("server")
    @classmethod
    def _named_by_its_model(cls, server: Server, info: ValidationInfo) -> Server:
        """The servers, with a default name that follows from the model."""
        model = info.data.get("model")
        try:
            id_ = profile(server.profile).model_id if model is None else model.id
        except UnknownProfileError:
            return server  # refused when the profile is resolved
        return server.called(server_name(id_))

    @property
    def owns_platform(self) -> bool:
        """Whether this stack creates its network and cluster."""
        return self.platform.stack is None and self.platform.kubeconfig is None

    @property
    def replicas(self) -> int:
        """Replicas that this stack is sized for: a fixed number, the autoscaler's maximum, or 1 if managed externally."""
        fixed = self.server.fixed_replicas
        if fixed != "external":
            return fixed
        return 1 if self.server.scaling.mode == "none" else self.server.scaling.max

    @property
    def own_replicas(self) -> int | None:
        """Replicas that this stack sets; None if an autoscaler or kubectl manages them."""
        replicas = self.server.replicas
        return None if replicas == "external" or self.server.scaling.mode != "none" else replicas

    @property
    def least_replicas(self) -> int | None:
        """Fewest replicas at any time when this stack serves; None if they are managed externally."""
        fixed, scaling = self.server.fixed_replicas, self.server.scaling
        if fixed != "external":
            return fixed
        if scaling.mode == "none":
            return None
        return scaling.min or min((window.replicas for window in scaling.windows), default=0)

    @property
    def active_migration(self) -> bool:
        """Whether a ComputeClass has active migration, which returns pods to an earlier priority. It evicts them one by one: one
        replica alone would leave nothing that serves until its successor is ready.
        """
        return (self.least_replicas or 0) > 1

    @property
    def gpu_ceiling(self) -> int | None:
        """GPU quota of the namespace, canary included; None if replicas are managed externally."""
        is_external = self.own_replicas is None and self.server.scaling.mode == "none"
        return None if is_external else (self.replicas + self.canary_replicas) * self.gpus_per_replica

    @property
    def is_scaled(self) -> bool:
        """Whether this stack's autoscaler sets the number of replicas; false while the fleet is paused."""
        return self.server.scaling.mode != "none" and self.server.replicas != 0

    @property
    def scales_by_batch(self) -> bool:
        """Whether servers run for a batch only, as many as it asks for."""
        return self.server.scaling.mode == "batch"

    @property
    def scales_by_keda(self) -> bool:
        """Whether KEDA scales this stack's servers."""
        return self.server.scaling.mode != "none"

    @property
    def makes_keda(self) -> bool:
        """Whether this stack installs KEDA: as set, else if KEDA scales its servers."""
        return self.owns_platform and (self.scales_by_keda if self.cluster.keda is None else self.cluster.keda)

    @property
    def keda_reads_metrics(self) -> bool:
        """Whether KEDA may read Cloud Monitoring: for this stack's requests in flight, or for stacks that join its cluster."""
        return self.makes_keda and (self.server.scaling.mode == "load" or bool(self.cluster.keda))

    @property
    def gpus_per_replica(self) -> int:
        """GPUs of one server pod."""
        return self.server.gpus or self.machine.gpus

    @property
    def nodes(self) -> int:
        """Nodes at full size, canary included. Pods with part of a machine's GPUs share nodes."""
        return self.nodes_for(self.replicas)

    def nodes_for(self, replicas: int) -> int:
        """Nodes of this number of replicas and the canary."""
        return ceil((replicas + self.canary_replicas) * self.gpus_per_replica / self.machine.gpus)

    @property
    def gpus(self) -> int:
        """GPUs of those nodes."""
        return self.nodes * self.machine.gpus

    @cached_property
    def resources(self) -> PodResources:
        """Requests of a server pod, without GPUs."""
        downloaded_gb = 0.0 if self.weights.has_volume else self.serving.model.size_gb
        return self.server.resources.of_pod(
            self.machine,
            self.gpus_per_replica,
            downloaded_gb=downloaded_gb,
            has_router=self.server.shape is not None,
        )

    @property
    def local_ssd(self) -> bool:
        """Whether nodes get optional local SSDs, because the pods would need a large boot disk."""
        # The ComputeClass does not request them.
        can_ask = self.machine.local_ssd == "optional" and not isinstance(self.capacity, ComputeClassMode)
        return can_ask and self._boot_disk_gib(local_ssd=False) > node_room.LOCAL_SSD_INSTEAD_ABOVE_GIB

    @property
    def boot_disk_gib(self) -> int:
        """Size of the boot disk of a node with GPUs."""
        return self._boot_disk_gib(local_ssd=self.local_ssd)

    def _boot_disk_gib(self, *, local_ssd: bool) -> int:
        pod_gib = self.resources.ephemeral_storage_gib + CACHE_SAVER_DISK_GIB * self.server.compile_cache.enabled
        pod_gib += POD_ROUTER_DISK_GIB * (self.server.shape is not None)
        node_gib = self.machine.gpus // self.gpus_per_replica * pod_gib
        return node_room.boot_disk_of(self.machine, requested_gib=node_gib, local_ssd=local_ssd)

    @property
    def proxy_only_subnet(self) -> bool:
        """Whether the VPC has a proxy-only subnet: an existing one, as set, else with the gateway."""
        return self.network.has_proxy_only_subnet or self.makes_proxy_only_subnet

    @property
    def makes_proxy_only_subnet(self) -> bool:
        """Whether this stack creates the proxy-only subnet."""
        if self.network.has_proxy_only_subnet:
            return False
        return self.gateway.enabled if self.network.proxy_only.enabled is None else self.network.proxy_only.enabled

    @property
    def rank_ports(self) -> int:
        """Ports of one pod's servers: one per rank with `server.rankPorts`, else one."""
        return self.serving.engine.data_parallel_size if self.server.rank_ports else 1

    @property
    def has_rank_servers(self) -> bool:
        """Whether each rank of a pod is a server of its own, with a port of its own or behind the pod's router."""
        return self.server.rank_ports or self.server.shape is not None

    @property
    def ports(self) -> tuple[int, ...]:
        """Ports of one pod's servers."""
        return tuple(range(HTTP_PORT, HTTP_PORT + self.rank_ports))

    @property
    def sees_ranks(self) -> bool:
        """Whether what clients call chooses among the ports of ranks."""
        return self.has_picker or self.has_router

    @property
    def status_port(self) -> int:
        """Port with the health and the metrics of a whole pod."""
        return STATUS_PORT if self.has_rank_servers else HTTP_PORT

    @property
    def api_servers_of_a_stream(self) -> int:
        """API servers that share one stop signal: with a server per rank each has its own."""
        return 1 if self.has_rank_servers else self.serving.engine.api_servers

    @property
    def guards_v1_only(self) -> bool:
        """Whether there is an API key, which vLLM checks under /v1 only."""
        return self.api_key_store is not None

    @property
    def api_key_secret(self) -> SecretManagerSecret | None:
        """The API key's Secret Manager secret, if any."""
        return self._of_project(self.server.api_key_secret)

    @property
    def hf_token_secret(self) -> SecretManagerSecret | None:
        """The Hugging Face token's Secret Manager secret, if any."""
        return self._of_project(self.weights.token_secret)

    @property
    def api_key_store(self) -> SecretStore | None:
        """Source of the API key; None without one."""
        return _store(self.api_key_secret, self.has_api_key)

    @property
    def hf_token_store(self) -> SecretStore | None:
        """Source of the Hugging Face token; None without one."""
        return _store(self.hf_token_secret, self.has_hf_token)

    def _of_project(self, secret: SecretVersion | None) -> SecretManagerSecret | None:
        if secret is None:
            return None
        return SecretManagerSecret(project=self.project, name=secret.name, version=secret.version)

    @property
    def google_labels(self) -> dict[str, str]:
        """Labels of every Google Cloud resource, for cost reports."""
        return {**self.labels, "app": "vllm-fleet", "stack": fitted(self.stack, limit=63)}

    @property
    def object_labels(self) -> dict[str, str]:
        """Labels of this stack's Kubernetes objects, without the `app` of each."""
        return stack_labels(self.stack)

    @property
    def has_extended_shutdown(self) -> bool:
        """Whether a ComputeClass's Spot nodes have GKE's extended graceful node shutdown of 120 s: if the cluster is known to have a
        version that allows it; not known of another stack's cluster.
        """
        return self.owns_platform and has_extended_shutdown(self.cluster.release_channel, self.cluster.min_version)

    @cached_property
    def placement(self) -> Placement:
        """Scheduling of the server pods."""
        return placement(
            self.capacity,
            self.namespace,
            self.zones,
            machine=self.machine,
            gpus=self.gpus_per_replica,
            local_ssd=self.local_ssd,
            full_quota=self.own_replicas is not None,
        )

    @cached_property
    def serving(self) -> Serving:
        """The profile with this stack's overrides."""
        return resolve(self.stack, self.server, self.model, self.machine)

    @property
    def canary_replicas(self) -> int:
        """Pods of the canary; 0 without one."""
        return 0 if self.rollout is None else 1

    @property
    def canary_pool(self) -> str | None:
        """InferencePool of a canary with a share of the users' requests; None of an offline trial."""
        rollout = self.rollout
        return None if rollout is None or rollout.weight is None else self.gateway.pool_name + CANARY_ENDING

    @property
    def canary_weight(self) -> int:
        """Percent of the users' requests for the canary."""
        return 0 if self.rollout is None else self.rollout.weight or 0

    @property
    def endpoint_kind(self) -> EndpointKind:
        """What chooses a server for each request."""
        return self.endpoint.kind or ("inferenceGateway" if self.gateway.enabled else "clusterIp")

    @property
    def has_router(self) -> bool:
        """Whether routers of this stack choose."""
        return self.endpoint_kind == "leastRequest"

    @property
    def has_picker(self) -> bool:
        """Whether the gateway's endpoint picker chooses."""
        return self.gateway.enabled and self.endpoint_kind == "inferenceGateway"

    @property
    def routing(self) -> Routing:
        """How requests reach a server, for matching with published figures."""
        if self.has_picker:
            return "llm-d-picker" if self.gateway.has_llm_d else "inference-gateway"
        if self.has_router:
            return "router"
        return "load-balancer" if self.gateway.enabled else "cluster-ip"

    @property
    def seats(self) -> int | None:
        """Sequences that a pod's engines hold until they end; None where vLLM decides."""
        engine = self.serving.engine
        return engine.max_num_seqs and engine.max_num_seqs * answering_engines(engine, self.server.shape)

    @property
    def max_in_flight(self) -> int:
        """Requests in flight at one server, or with a port per rank at one rank, through one router."""
        of_replica = max(self.seats or 0, self.serving.concurrency_per_replica)
        # A prompt for which decode has no place should wait in front: read ahead, it holds cache in prefill, and may expire. Not divided by
        # the routers: connections are not spread evenly, and one router must be able to fill a pod.
        if self.server.shape is not None and self.seats:
            of_replica = self.seats
        return -(-of_replica // self.rank_ports)

    @property
    def shares(self) -> Mapping[str, int]:
        """Percent of the users' requests by InferencePool: the servers', and of a canary among users. Empty without an endpoint picker."""
        if not self.has_picker:
            return {}
        others = {} if self.canary_pool is None else {self.canary_pool: self.canary_weight}
        return {self.gateway.pool_name: 100 - self.canary_weight, **others}

    @property
    def pickers(self) -> int:
        """Pods of the gateway's endpoint pickers: a pool has its own."""
        return self.gateway.epp.replicas * len(self.shares)

    @cached_property
    def as_canary(self) -> Settings | None:
        """The stack with the canary as its servers, without benchmark and batch: for the canary's own arguments, and to apply the servers'
        checks to it. None without a canary.
        """
        rollout = self.rollout
        if rollout is None:
            return None
        server, model = rollout.server(self.server), rollout.chosen_model(self.model, self.serving.model)
        return self._but(frozenset({"batch", "benchmark", "rollout"}), server=server, model=model)

    @property
    def without_canary(self) -> Settings:
        """The stack without its canary."""
        return self if self.rollout is None else self._but(frozenset({"rollout"}))

    def one_replica(self, *, canary: bool = False) -> Settings:
        """One replica of the servers, or the canary, with the stack's benchmark and without endpoint and gateway: what is measured at its
        pod. Raises LookupError without a canary.
        """
        whole = self.as_canary if canary else self
        if whole is None:
            raise LookupError(f"stack {self.stack} has no canary")
        server = whole.server.model_copy(update={"replicas": 1, "scaling": Scaling()})
        without = frozenset({"batch", "endpoint", "gateway", "rollout"})
        return whole._but(without, server=server, benchmark=self.benchmark)

    def _but(self, without: Container[str], **changes: Any) -> Settings:
        given = {name: getattr(self, name) for name in self.model_fields_set if name not in without}
        # Not model_copy, which copies cached properties and validates nothing.
        whole = {**given, "namespace": self.namespace, "server": self.server, **changes}
        return Settings.model_validate(whole, by_alias=False, by_name=True)

    @cached_property
    def canary(self) -> Serving | None:
        """What the canary serves; None without a canary. Raises SettingsError."""
        return None if self.as_canary is None else self.as_canary.serving


def _store(secret: SecretManagerSecret | None, in_configuration: bool) -> SecretStore | None:
    if secret is not None:
        return "secret-manager"
    return "kubernetes" if in_configuration else None
