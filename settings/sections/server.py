"""Section `server`: the vLLM server; its engine's flags are in engine.py."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from facts.releases import find
from settings.names import own_server_name
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


class Resources(Section):
    """What a server pod asks of its node; requests equal limits."""

    cpu: Annotated[int, Field(ge=1, le=216)] = 160
    """vCPU of the pod. An engine keeps 1.1 to 1.3 cores busy (measured on an H200), eight engines, their API servers and
    the coordinator more than 16; a node has 224, of which system pods need some."""
    memory_gib: Annotated[int, Field(ge=64, le=3_700)] = 1_000
    """Memory of the pod in GiB, /dev/shm included; a node has 3968."""
    ephemeral_storage_gib: Annotated[int, Field(ge=20, le=10_000)] = 500
    """Local SSD space of the pod in GiB: image layers, logs, compile caches."""
    shm_gib: Annotated[int, Field(ge=8, le=1_000)] = 64
    """Size of /dev/shm in GiB; counts against the memory."""


class Needs(Section):
    """What the traffic needs, so that the settings can be held against it."""

    context_tokens: Annotated[int, Field(gt=0)] | None = None
    """Longest prompt plus answer in tokens. Default: the profile's."""
    concurrency_per_replica: Annotated[int, Field(gt=0)] | None = None
    """Requests in flight per replica at peak. Default: the profile's (2,000 in the article)."""


class Server(Section):
    """The vLLM Deployment and its Service."""

    name: Annotated[ShortName, AfterValidator(own_server_name)] = "qwen35-server"
    """Name of Deployment and Service, and value of the label `app`; the article's by default."""
    profile: str = "record"
    """Which set of engine flags; `docs/profiles.md` lists them."""
    replicas: Annotated[int, Field(ge=0, le=1_000)] | Literal["external"] = 1
    """Server pods, one A4 node each. 0 pauses the fleet; `external` leaves the number to kubectl or an autoscaler."""
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
    api_key_secret: SecretReference | None = None
    """Secret Manager secret that holds the API key: its name, or `{name, version}`. The key guards /v1 alone, so nothing else is
    routed then. With the name alone each replica has the key that was newest when it started."""
    internal_load_balancer: bool = False
    """Also publish the Service on an internal passthrough load balancer of the VPC."""
