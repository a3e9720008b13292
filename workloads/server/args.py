"""Arguments of `Server`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from settings.derived.compile_cache import PersistedCache
from settings.derived.drain import Drain, drain
from settings.sections.capacity import Placement
from settings.sections.engine import Engine
from settings.sections.model import Model
from settings.sections.secret_stores import SecretManagerSecret
from settings.sections.server import PodResources
from settings.sections.shape import Shape
from workloads import names, secret_files

if TYPE_CHECKING:
    import pulumi

    from workloads.weights.weights import WeightsMount


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerArgs:
    """Arguments of `Server`."""

    namespace: pulumi.Input[str]
    """Namespace of every object."""
    name: str
    """Name of Deployment and Service, and value of label `app`: 1 to 40 lower-case letters, digits and dashes."""
    image: pulumi.Input[str]
    """Full name of the vLLM image, with registry and digest. Its version is the engine's."""
    engine: Engine
    """vLLM's flags."""
    model: Model
    """The model: Hugging Face repository, pinned revision, size, LoRA adapters, for which `engine.extra_args` need `--enable-lora`."""
    placement: Placement
    """Node selection, GPUs and termination grace: `placement(Spot(mode="spot"), namespace, zones)` of
    settings/sections/capacity.py."""
    resources: PodResources
    """CPU, memory, disk and shared memory of the pod, in GiB: `Resources().of_pod(machine, gpus)` of settings/sections/server.py."""
    weights: WeightsMount | None = None
    """Mount of the weights: `Weights.mount`. None: each replica downloads them."""
    hf_token: secret_files.Stored | None = None
    """Token for a gated model that each replica downloads: `Weights.token`."""
    replicas: int | None = 1
    """Server pods, 0 to 1000; 0 pauses the fleet. None: managed externally, by kubectl or an autoscaler."""
    starts_empty: bool = False
    """With `replicas` None: whether the Deployment is created without pods, because its autoscaler is paused or has a minimum of 0."""
    max_replicas: int | None = None
    """With `replicas` None: the most that the autoscaler sets. None: unknown, and `REPLICAS_ASSUMED` bounds an update."""
    likely_start_seconds: int = 1_080
    """Likely time of a replica from Pending to ready: `facts.time_to_serve`. Default: the article's node, rounded up to 18 minutes."""
    startup_minutes: int = 30
    """Minutes from start to ready, 5 to 120. The article measured about 10."""
    drain_seconds: int | None = None
    """Seconds that requests in flight have when a server is stopped, 5 to 590. None: 120 with several API servers; with one, until they
    are done, within the placement's grace period."""
    keep_alive_seconds: int | None = None
    """Seconds that the server keeps an idle connection: 620 behind Google's load balancer (`facts.engines.BEHIND_BALANCER_SECONDS`). None:
    vLLM's 5, or that of `engine.extra_env`, which wins."""
    creates_account: bool = True
    """Whether to create `service_account`. False for further servers of a namespace that share it."""
    api_key: pulumi.Output[str] | SecretManagerSecret | secret_files.Stored | None = None
    """API key required on /v1, the Secret Manager secret with it, or `Server.key` of other servers of the namespace. None: no key
    required."""
    compile_cache: PersistedCache | None = None
    """Compile cache shared with later pods. None: each pod compiles."""
    rank_ports: bool = False
    """Whether each data-parallel rank has an API server on a port of its own, as with vLLM's external load balancing; for a gateway or
    router that chooses among them."""
    shares_experts: bool = False
    """Whether the model is a mixture of experts, whose layers are spread over the ranks, which then step together. For `rank_ports`."""
    shape: Shape | None = None
    """Disaggregated prefill: GPUs for prefill engines and for decode engines, with vllm-router as a sidecar; `engine` then has the
    connector (`settings.shaped_engine.shaped`). The sidecar sends the engines the API key and checks none: routers in front of the pods do.
    None: every engine does both."""
    internal_load_balancer: bool = False
    """Whether to publish the Service on an internal passthrough load balancer."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of Deployment and pods that declare the expected traffic, for policies: at least
    `vllm-fleet.dev/context-tokens` and `vllm-fleet.dev/concurrency-per-replica`."""
    deployment_annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the Deployment alone, a change of which restarts no pod."""

    @property
    def service_account(self) -> str:
        """Kubernetes service account of the pods. With `compile_cache`, the one that only pods of its key have."""
        return names.SERVER_ACCOUNT if self.compile_cache is None else self.compile_cache.account

    @property
    def drain(self) -> Drain:
        """Shutdown of the pod."""
        servers = 1 if self.has_rank_servers else self.engine.api_servers
        return drain(self.drain_seconds, servers)

    @property
    def ports(self) -> tuple[int, ...]:
        """Ports of the API: one, or one per rank."""
        count = self.engine.data_parallel_size if self.rank_ports else 1
        return tuple(range(names.HTTP_PORT, names.HTTP_PORT + count))

    @property
    def status_port(self) -> int:
        """Port with the health and the metrics of the whole pod."""
        return names.STATUS_PORT if self.has_rank_servers else names.HTTP_PORT

    @property
    def has_rank_servers(self) -> bool:
        """Whether each rank is a server of its own."""
        return self.rank_ports or self.shape is not None
