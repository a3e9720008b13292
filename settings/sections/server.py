"""Section `server`: the vLLM server. The engine's flags are in engine.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from facts import node_room
from facts.capacity import MAX_GRACE_SECONDS
from facts.engines import EXIT_SECONDS, LEAST_DRAIN_SECONDS
from facts.machines import Machine
from facts.names import ARTICLE_SERVER, own_server_name
from facts.node_room import LEAST_EPHEMERAL_STORAGE_GIB, SHARE_PERCENT
from facts.releases import CURRENT, find
from facts.sizing import POD_ROUTER_DISK_GIB
from facts.workloads import workloads_with_lengths
from settings.sections.scaling import Scaling
from settings.sections.section import IMAGE_PART, SecretReference, Section, ShortName, like
from settings.sections.shape import POD_ROUTER_CPU, POD_ROUTER_MEMORY_GIB, Shape

Digest = Annotated[str, like(r"^sha256:[0-9a-f]{64}$", "sha256: and 64 hexadecimal digits in lowercase")]


Repository = Annotated[
    str,
    like(
        rf"^{IMAGE_PART}(/{IMAGE_PART})?$",
        "NAME or OWNER/NAME in lowercase letters and digits, separated by dashes, a dot or one or two underscores, without a tag",
    ),
    Field(max_length=200),
]
Tag = Annotated[
    str,
    like(
        r"^v[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}([A-Za-z0-9_.-]{0,99}[A-Za-z0-9])?$",
        f"a release, such as {find(CURRENT).tag} or {find(CURRENT).tag}-cu130",
    ),
]
DEFAULT_REPOSITORY = "vllm/vllm-openai"


class Image(Section):
    """The vLLM image, pulled through the stack's Artifact Registry repository."""

    repository: Repository = DEFAULT_REPOSITORY
    """Repository on Docker Hub."""
    tag: Tag = find(CURRENT).tag
    """Tag: the vLLM release of the digest."""
    digest: Digest | None = find(CURRENT).digest
    """Digest of the image to pull. None: the tag decides, for a release whose digest no source publishes."""

    @property
    def reference(self) -> str:
        """Image reference after the registry's prefix, with tag, and with the digest if known."""
        return f"{self.repository}:{self.tag}" + (f"@{self.digest}" if self.digest else "")


class ImageChoice(Section):
    """The vLLM image in a stack file."""

    repository: Repository = DEFAULT_REPOSITORY
    """Repository on Docker Hub."""
    tag: Tag | None = None
    """Tag: the vLLM release of the digest. `latest` is not allowed. Default: the tag of `engine.version`."""
    digest: Digest | None = None
    """Digest of the image to pull. Default: the published digest of the tag, known for v0.18.1 only; v0.18.0 and v0.33.0 are pulled by
    tag until it is set. `fleet doctor --for up --live` prints it."""


Tokens = Annotated[int, Field(gt=0, le=100_000_000)]
CPU_PER_GPU: Final = 20
MEMORY_GIB_PER_GPU: Final = 125
SHM_GIB_PER_GPU: Final = 8
"""Default requests per GPU, if the machine has that much. An engine uses 1.1 to 1.3 cores (measured on an H200), with its API server
and the coordinator more than 2. Assumed: the rest is margin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """Requests of a server pod, without GPUs; limits are equal."""

    cpu: int
    memory_gib: int
    ephemeral_storage_gib: int
    shm_gib: int
    """Size of /dev/shm, part of the memory: at most a quarter of it."""


class Resources(Section):
    """Requests of a server pod; limits are equal. Defaults depend on machine type and GPUs."""

    cpu: Annotated[int, Field(ge=1, le=400)] | None = None
    """vCPU of the pod. Default: 20 per GPU (160 of an A4's 224), at most 90 % of its share of the node."""
    memory_gib: Annotated[int, Field(ge=4, le=4_000)] | None = None
    """Memory of the pod in GiB, including /dev/shm. Default: 125 per GPU (1,000 of an A4's 3,968), at most 90 % of its share of the
    node."""
    ephemeral_storage_gib: Annotated[int, Field(ge=LEAST_EPHEMERAL_STORAGE_GIB, le=12_000)] | None = None
    """Disk space of the pod in GiB: image layers, logs, compile caches, and the weights with `source: huggingface`. Default: 500 on a
    machine type that always has local SSDs, at most 90 % of its share of them; else 47 plus the weights. GKE makes the boot disk as
    large as the requests need; optional local SSDs are used instead of a boot disk above 400 GiB."""

    def of_pod(
        self, machine: Machine, gpus: int, *, downloaded_gb: float = 0, has_router: bool = False
    ) -> PodResources:
        """Requests of the servers in a pod with this number of the machine's GPUs. `downloaded_gb`: weights that it downloads to its own
        disk. `has_router`: whether vllm-router runs in the same pod.
        """
        share = node_room.of_machine(machine).share(gpus * SHARE_PERCENT, machine.gpus * 100)
        of_router = (POD_ROUTER_CPU, POD_ROUTER_MEMORY_GIB, POD_ROUTER_DISK_GIB)
        cpu, memory, disk = of_router if has_router else (0, 0, 0)
        memory_gib = self.memory_gib or max(1, min(MEMORY_GIB_PER_GPU * gpus, share.memory_gib - memory))
        disk_gib = node_room.pod_disk_gib(machine, gpus, downloaded_gb=downloaded_gb, beside_gib=disk)
        return PodResources(
            cpu=self.cpu or max(1, min(CPU_PER_GPU * gpus, share.cpu - cpu)),
            memory_gib=memory_gib,
            ephemeral_storage_gib=self.ephemeral_storage_gib or disk_gib,
            shm_gib=max(1, min(SHM_GIB_PER_GPU * gpus, memory_gib // 4)),
        )


def _has_lengths(name: str) -> str:
    """A workload's name. Raises ValueError for one without known lengths."""
    if name not in (known := workloads_with_lengths()):
        raise ValueError(f"one of {', '.join(known)}; or requests, with your own lengths")
    return name


class Requests(Section):
    """Lengths of the expected requests."""

    input_tokens: Tokens
    """Mean prompt in tokens."""
    output_tokens: Tokens
    """Mean response in tokens."""
    longest_input_tokens: Tokens | None = None
    """Longest prompt in tokens. Default: all prompts have the mean length."""


class Needs(Section):
    """The expected traffic, which the other settings are checked against."""

    context_tokens: Tokens | None = None
    """Longest prompt plus output in tokens. Default: the profile's."""
    concurrency_per_replica: Annotated[int, Field(gt=0, le=1_000_000)] | None = None
    """Peak requests in flight per replica. Default: the profile's (2,000 in the article)."""
    workload: Annotated[str, AfterValidator(_has_lengths)] | None = None
    """Named workload that throughput is estimated for, e.g. `vllm-1024-512`. Default: the profile's, or the article's lengths."""
    requests: Requests | None = None
    """Lengths that throughput is estimated for, instead of a named workload. `fleet plan --write` sets the planned ones."""


class CompileCache(Section):
    """A shared cache of compiled kernels and graphs, for faster starts."""

    enabled: bool = False
    """Keep compiled kernels and graphs in a bucket. The first pod of a release stores them before it receives requests, and later pods of
    the release load them. It gives the servers' pods egress to Google's APIs."""


class Server(Section):
    """The vLLM Deployment and its Service."""

    name: Annotated[ShortName, AfterValidator(own_server_name)] = ARTICLE_SERVER
    """Name of Deployment and Service, and value of the label `app`. Default: the article's qwen35-server for Qwen3.5, else the repository's
    name and -server, such as llama-31-8b-instruct-server. Set it to keep the address when the model changes."""
    profile: str = "record"
    """Name of a profile, a set of engine flags; see `docs/profiles.md`."""
    replicas: Annotated[int, Field(ge=0, le=1_000)] | Literal["external"] = 1
    """Number of server pods. 0 pauses the fleet; `external`: managed by kubectl or your autoscaler."""
    scaling: Scaling = Scaling()
    """This stack's autoscaler: by schedule, by load, or none."""
    gpus: Annotated[int, Field(ge=1, le=8)] | None = None
    """GPUs of one pod, for pods that share a machine. Default: all of the machine's. Pods cannot share B200, GB200, H200 and H100 Mega
    machines."""
    engine: dict[str, Any] = {}
    """Engine settings that differ from the profile's, by camelCase name, e.g. `{maxModelLen: 8192}`."""
    tensor_parallel_reason: Annotated[str, like(r"^\S.{8,498}\S$", "one line of 10 to 500 characters")] | None = None
    """Why a model that fits one B200 is split over several by `engine.tensorParallelSize`, such as latency. Reviewers see it in the preview
    and on the Deployment. Default: none, and the split is refused."""
    needs: Needs = Needs()
    """The expected traffic."""
    image: ImageChoice = ImageChoice()
    """The vLLM image."""
    resources: Resources = Resources()
    """CPU, memory and disk of a server pod."""
    startup_minutes: Annotated[int, Field(ge=5, le=120)] = 30
    """Minutes a pod may take from start to ready. The article measured about 10; compiling kernels at first start adds more."""
    drain_seconds: Annotated[int, Field(ge=LEAST_DRAIN_SECONDS, le=MAX_GRACE_SECONDS - EXIT_SECONDS)] | None = None
    """Seconds that requests in flight have when a server is stopped: at a scale-in, an update or a drained node. Longer requests are cut.
    5 to 590. Default: 120, twice the record's slowest request; with one API server, until they are done."""
    rank_ports: bool = False
    """Serve each data-parallel rank on a port of its own, 8000 and up, so that a gateway or router sees the requests of each rank and
    chooses among ranks instead of pods. Needs one that does, and vLLM's default of an API server per rank."""
    shape: Shape | None = None
    """Prefill apart from decode, in each pod; docs/prefill-apart.md says for which loads. Needs vLLM 0.33.0 and `endpoint.kind:
    leastRequest`. Default: every engine reads prompts and answers."""
    compile_cache: CompileCache = CompileCache()
    """A shared cache of what vLLM compiles at startup."""
    api_key_secret: SecretReference | None = None
    """Secret Manager secret with the API key: its name, or `{name, version}`. vLLM checks the key under /v1 only, so the gateway routes
    nothing else. Without a version each replica uses the latest key at its start."""
    internal_load_balancer: bool = False
    """Also expose the Service on an internal passthrough load balancer in the VPC."""

    def called(self, name: str) -> Server:
        """These servers with this default name, unless the stack file names them."""
        if "name" in self.model_fields_set:
            return self
        given = {field: getattr(self, field) for field in Server.model_fields}
        return Server.model_construct(self.model_fields_set, **{**given, "name": name})

    @property
    def fixed_replicas(self) -> int | Literal["external"]:
        """Number of server pods, or `external` if kubectl or an autoscaler changes it."""
        return self.replicas if self.scaling.mode == "none" or self.replicas == 0 else "external"

    @property
    def size_key(self) -> str:
        """The key of this section that the rest of the stack is sized for."""
        return "replicas" if self.scaling.mode == "none" else "scaling.max"
