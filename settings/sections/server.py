"""Section `server`: the vLLM server; its engine's flags are in engine.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from facts import node_room
from facts.machines import Machine
from facts.releases import find
from settings.names import own_server_name
from settings.sections.scaling import Scaling
from settings.sections.section import SecretReference, Section, ShortName, like

Digest = Annotated[str, like(r"^sha256:[0-9a-f]{64}$", "sha256: and 64 digits and letters a to f")]


Repository = Annotated[
    str,
    like(
        r"^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)?$",
        "NAME or OWNER/NAME in lower-case letters, digits, dashes, dots and underscores, without a tag",
    ),
    Field(max_length=200),
]
Tag = Annotated[
    str, like(r"^v[0-9]+\.[0-9]+\.[0-9]+[A-Za-z0-9_.-]{0,100}$", "a release, such as v0.18.1 or v0.18.1-cu130")
]
DEFAULT_REPOSITORY = "vllm/vllm-openai"


class Image(Section):
    """The vLLM image that runs, pulled through the stack's own Artifact Registry repository."""

    repository: Repository = DEFAULT_REPOSITORY
    """Repository on Docker Hub."""
    tag: Tag = "v0.18.1"
    """Tag; says which vLLM the digest is."""
    digest: Digest = find("0.18.1").digest or ""
    """Digest; what is pulled. Default: the published digest of v0.18.1."""

    @property
    def reference(self) -> str:
        """What follows the registry's prefix: the tag for people, the digest for the machine."""
        return f"{self.repository}:{self.tag}@{self.digest}"


class ImageChoice(Section):
    """The vLLM image as a stack file names it."""

    repository: Repository = DEFAULT_REPOSITORY
    """Repository on Docker Hub."""
    tag: Tag | None = None
    """Tag; says which vLLM the digest is. `latest` is not a version. Default: that of `engine.version`."""
    digest: Digest | None = None
    """Digest; what is pulled. Default: the published digest of the tag, which is known of v0.18.1 alone."""


CPU_PER_GPU: Final = 20
MEMORY_GIB_PER_GPU: Final = 125
SHM_GIB_PER_GPU: Final = 8
"""What a pod asks for each of its GPUs by default, where the machine has it. An engine keeps 1.1 to 1.3 cores busy (measured on an
H200); with its API server and the coordinator it is more than 2. Assumed: the rest is margin."""
SHARE_PERCENT: Final = 90
"""Of what a machine leaves for the pod, the most that is asked for by default. Assumed: what system pods take is no published number."""
EPHEMERAL_STORAGE_GIB: Final = 500
"""The same for disk space, whatever the number of GPUs: image layers, logs, compile caches."""
LEAST_EPHEMERAL_STORAGE_GIB: Final = 20
"""Without weights. Assumed: logs, a tokenizer and compile caches are a few GiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """What a server pod asks of its node beside GPUs; requests equal limits."""

    cpu: int
    memory_gib: int
    ephemeral_storage_gib: int
    shm_gib: int


class Resources(Section):
    """What a server pod asks of its node; requests equal limits. What is left out follows from machine and GPUs."""

    cpu: Annotated[int, Field(ge=1, le=400)] | None = None
    """vCPU of the pod. Default: 20 a GPU (160 of an A4's 224), or nine tenths of its share of the node."""
    memory_gib: Annotated[int, Field(ge=4, le=4_000)] | None = None
    """Memory of the pod in GiB, /dev/shm included. Default: 125 a GPU (1,000 of an A4's 3,968), or that share."""
    ephemeral_storage_gib: Annotated[int, Field(ge=LEAST_EPHEMERAL_STORAGE_GIB, le=12_000)] | None = None
    """Disk space of the pod in GiB: image layers, logs, compile caches. Default: 500, or that share. On local SSDs where the machine
    has them; where it has them only if asked, by asking for more than its boot disk leaves."""
    shm_gib: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Size of /dev/shm in GiB; counts against the memory. Default: 8 a GPU, a quarter of the memory at most."""

    def of_pod(self, machine: Machine, gpus: int) -> PodResources:
        """Of a pod with that many of the machine's GPUs."""
        share = node_room.of_machine(machine).share(gpus * SHARE_PERCENT, machine.gpus * 100)
        memory_gib = self.memory_gib or min(MEMORY_GIB_PER_GPU * gpus, share.memory_gib)
        return PodResources(
            cpu=self.cpu or min(CPU_PER_GPU * gpus, share.cpu),
            memory_gib=memory_gib,
            ephemeral_storage_gib=self.ephemeral_storage_gib or min(EPHEMERAL_STORAGE_GIB, share.ephemeral_gib),
            shm_gib=self.shm_gib or max(1, min(SHM_GIB_PER_GPU * gpus, memory_gib // 4)),
        )


class Needs(Section):
    """What the traffic needs, so that the settings can be held against it."""

    context_tokens: Annotated[int, Field(gt=0)] | None = None
    """Longest prompt plus answer in tokens. Default: the profile's."""
    concurrency_per_replica: Annotated[int, Field(gt=0)] | None = None
    """Requests in flight per replica at peak. Default: the profile's (2,000 in the article)."""


class CompileCache(Section):
    """Compiled kernels and graphs, kept for the pods that start later."""

    enabled: bool = False
    """Keep them in a bucket of the stack's own. The first pod of a release stores what it compiled, before it gets requests; each later
    pod of the same release starts with it. Off by default: the servers' pods may then reach Google's APIs, and nothing else outside."""


class Server(Section):
    """The vLLM Deployment and its Service."""

    name: Annotated[ShortName, AfterValidator(own_server_name)] = "qwen35-server"
    """Name of Deployment and Service, and value of the label `app`; the article's by default."""
    profile: str = "record"
    """Which set of engine flags; `docs/profiles.md` lists them."""
    replicas: Annotated[int, Field(ge=0, le=1_000)] | Literal["external"] = 1
    """Server pods. 0 pauses the fleet; `external` leaves the number to kubectl or an autoscaler of yours."""
    scaling: Scaling = Scaling()
    """An autoscaler of this stack's own: by the clock, by load, or not at all."""
    gpus: Annotated[int, Field(ge=1, le=8)] | None = None
    """GPUs of one pod, for pods that share a machine. Default: all of the machine's. B200, GB200, H200 and H100 Mega are not."""
    engine: dict[str, Any] = {}
    """Engine settings that differ from the profile's, by their camelCase names, e.g. `{maxModelLen: 8192}`."""
    needs: Needs = Needs()
    """What the traffic needs."""
    image: ImageChoice = ImageChoice()
    """The vLLM image."""
    resources: Resources = Resources()
    """CPU, memory and disk of a server pod."""
    startup_minutes: Annotated[int, Field(ge=5, le=120)] = 30
    """Minutes a pod may take from start to ready. The article measured about 10; kernels compiled at first start add more."""
    compile_cache: CompileCache = CompileCache()
    """Caches of what vLLM compiles at its start."""
    api_key_secret: SecretReference | None = None
    """Secret Manager secret that holds the API key: its name, or `{name, version}`. The key guards /v1 alone, so nothing else is
    routed then. With the name alone each replica has the key that was newest when it started."""
    internal_load_balancer: bool = False
    """Also publish the Service on an internal passthrough load balancer of the VPC."""

    @property
    def fixed_replicas(self) -> int | Literal["external"]:
        """Server pods, where the stack file fixes their number; `external` where kubectl or an autoscaler changes it."""
        return self.replicas if self.scaling.mode == "none" or self.replicas == 0 else "external"

    @property
    def size_key(self) -> str:
        """The key of this section that says for how many servers the rest of the stack is sized."""
        return "replicas" if self.scaling.mode == "none" else "scaling.max"
