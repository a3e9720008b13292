"""Sections of the stack file that become Kubernetes objects."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from settings.secrets_in_text import looks_drawn
from settings.section import Section

Revision = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
"""A git commit: 40 hexadecimal digits."""
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


def _is_a_name(text: str) -> str:
    """The text. Raises ValueError for what is the secret itself, by the look of it."""
    if looks_drawn(text):
        raise ValueError("the name of a secret, and this looks like the secret itself: put it into Secret Manager")
    return text


SecretName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,255}$"), AfterValidator(_is_a_name)]
"""Name of a Secret Manager secret of the stack's project."""


class Model(Section):
    """The model to serve, when it is not the profile's own."""

    id: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    """Hugging Face repository, e.g. "Qwen/Qwen3.5-27B-FP8"."""
    revision: Revision
    """Commit of that repository. A branch name would let the weights change under a running fleet."""
    size_gb: Annotated[float, Field(gt=0)]
    """Size of the repository's files in GB (10**9 bytes); sizes the weights volume and the load time."""


class Writer(Section):
    """The Job that downloads the weights once."""

    cpu: Annotated[int, Field(ge=2, le=72)] = 4
    """vCPU of the writer pod."""
    memory_gib: Annotated[int, Field(ge=4, le=512)] = 16
    """Memory of the writer pod in GiB; Git LFS needs little, the page cache helps the checksums."""
    machine_family: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*$")] = "c4a"
    """Machine family. It must attach Hyperdisk ML, which C4, N4 and E2 cannot; C4A (Arm) is the choice of the article."""


class Weights(Section):
    """How the weights reach the GPUs."""

    source: Literal["hyperdisk", "huggingface"] = "hyperdisk"
    """`hyperdisk`: one download, one image, a read-only volume that every replica mounts.
    `huggingface`: each replica downloads for itself, as the article's single replica does; for one replica only."""
    size_gib: Annotated[int, Field(ge=4, le=65_536)] = 64
    """Size of the volume in GiB; the model and a tenth more."""
    throughput_mibps: Annotated[int, Field(ge=400, le=2_097_152)] = 2_400
    """Provisioned read throughput of the volume in MiB/s, shared by all replicas of a zone."""
    token_secret: SecretName | None = None
    """Secret Manager secret that holds a Hugging Face token. Qwen3.5-27B-FP8 is public and needs none."""
    writer: Writer = Writer()
    """The download Job."""


class Image(Section):
    """The vLLM image, pulled through the stack's own Artifact Registry repository."""

    repository: str = "vllm/vllm-openai"
    """Repository on Docker Hub."""
    tag: Annotated[str, Field(pattern=r"^v\d+\.\d+\.\d+")] = "v0.18.1"
    """Tag; says which vLLM the digest is. `latest` is not a version."""
    digest: Digest = "sha256:228113d30448941e7a845f57ef0b3d3ea74ffda81be72ded4f8d6dfab0124fe6"
    """Digest; what is pulled. Default: the published digest of v0.18.1."""

    @property
    def reference(self) -> str:
        """What follows the registry's prefix: the tag for people, the digest for the machine."""
        return f"{self.repository}:{self.tag}@{self.digest}"


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

    name: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")] = "qwen35-server"
    """Name of Deployment and Service, and value of the label `app`; the article's by default."""
    profile: str = "record"
    """Which set of engine flags; `docs/profiles.md` lists them."""
    replicas: Annotated[int, Field(ge=0, le=1_000)] | Literal["external"] = 1
    """Server pods, one A4 node each. 0 pauses the fleet; `external` leaves the number to kubectl or an autoscaler."""
    engine: dict[str, Any] = {}
    """Engine settings that differ from the profile's, by their camelCase names, e.g. `{maxModelLen: 8192}`."""
    needs: Needs = Needs()
    """What the traffic needs."""
    image: Image = Image()
    """The vLLM image."""
    resources: Resources = Resources()
    """CPU, memory and disk of a server pod."""
    startup_minutes: Annotated[int, Field(ge=5, le=120)] = 30
    """Minutes a pod may take from start to ready. The article measured about 10; kernels compiled at first start add more."""
    api_key_secret: SecretName | None = None
    """Secret Manager secret that holds the API key. It guards /v1 alone, so nothing else is routed then."""
    internal_load_balancer: bool = False
    """Also publish the Service on an internal passthrough load balancer of the VPC."""


class Epp(Section):
    """The endpoint picker in front of the replicas."""

    cpu: Annotated[int, Field(ge=1, le=48)] = 10
    """vCPU of the endpoint picker. 500m, an old default, crashed at 8,000 connections; the article settled on 10."""
    memory_gib: Annotated[int, Field(ge=1, le=180)] = 16
    """Memory of the endpoint picker in GiB."""
    replicas: Annotated[int, Field(ge=1, le=3)] = 1
    """1, or 2 to 3 for standby: one picker is active at a time whatever the number, so this is no way to scale."""
    on_c4: bool = False
    """Ask for a C4 node by affinity: faster single threads for the per-token gRPC work. Untested by the article."""


class Gateway(Section):
    """The Inference Gateway. It cost 31 to 37 % of the throughput in the article."""

    enabled: bool = False
    """Put the Inference Gateway in front of the replicas."""
    name: str = "inference-gateway"
    """Name of the Gateway."""
    pool: str = "qwen35-pool"
    """Name of the InferencePool and of the Helm release; the article's by default."""
    gateway_class: Literal["gke-l7-rilb", "gke-l7-regional-external-managed"] = "gke-l7-rilb"
    """Regional internal load balancer, or regional external. InferencePool does not work with global classes."""
    chart_version: Literal["v1.4.0"] = "v1.4.0"
    """Version of the inferencepool chart; its values differ between releases."""
    timeout_seconds: Annotated[int, Field(ge=30, le=86_400)] = 3_600
    """Backend timeout. GKE's own 30 s and the chart's 300 s cut long generations."""
    epp: Epp = Epp()
    """The endpoint picker."""


class Dataset(Section):
    """The file that a benchmark draws its requests from."""

    url: str
    """Where the file is: `https://HOST/PATH`, asked for without credentials, or `gs://BUCKET/OBJECT`, read with the benchmark
    pods' own identity, which this stack lets read that one object."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """SHA-256 of the file, 64 hexadecimal digits (`sha256sum FILE`): a file that changed is another workload."""

    @property
    def bucket_and_object(self) -> tuple[str, str] | None:
        """Bucket and object of a `gs://` URL; None for any other URL, and where one of them is missing."""
        found = re.fullmatch(r"gs://([a-z0-9][-_.a-z0-9]{1,220}[a-z0-9])/([^\s?#]+)", self.url)
        return None if found is None else (found[1], found[2])


class Slo(Section):
    """When a request counts as good; what is left out is no limit. Goodput is counted from the good ones alone."""

    ttft_ms: Annotated[float, Field(gt=0)] | None = None
    """Longest time to the first token, milliseconds. Default: no limit."""
    tpot_ms: Annotated[float, Field(gt=0)] | None = None
    """Longest mean time per output token after the first, milliseconds. Default: no limit."""
    e2e_ms: Annotated[float, Field(gt=0)] | None = Field(default=None, alias="e2eMs")
    """Longest time from sending a request to its last token, milliseconds. Default: no limit."""


WorkloadName = Literal["article", "vllm-1024-512", "shared-prefix-512", "sharegpt", "trace"]
"""The workloads of facts/data/workloads.yaml; a test holds both lists equal."""


class Benchmark(Section):
    """The article's benchmark as a Job in the cluster."""

    enabled: bool = False
    """Prepare the benchmark: its account, its way to the servers and to the bucket, and the Job where `runOnUpdate` says so."""
    run_on_update: bool = True
    """true: `pulumi up` runs the Job once the server is ready, on C4 nodes that are paid for while it runs. false: `pulumi up`
    only prepares, and `fleet bench run` makes the Job whenever somebody asks."""
    workload: WorkloadName = "article"
    """What requests look like. `article`: 512-1024 tokens in, 256-512 out. `vllm-1024-512`: what `--random-range-ratio 0.5` draws
    today, a third longer. `shared-prefix-512`: the article's answers, prompts of 768-1024 tokens of which the first 512 are the
    same in all. `sharegpt`: conversations of a ShareGPT file. `trace`: lengths or prompts of a JSONL file."""
    dataset: Dataset | None = None
    """The file for `sharegpt` and `trace`; the other workloads make their prompts up and take none."""
    concurrency: (
        Annotated[tuple[Annotated[int, Field(ge=1, le=100_000)], ...], Field(min_length=1, max_length=32)] | None
    ) = None
    """Requests in flight per replica, one run after another: several values are a sweep. Default: one run at
    `server.needs.concurrencyPerReplica`, which is the profile's (2,000 in the article)."""
    repeats: Annotated[int, Field(ge=1, le=20)] = 3
    """Runs of every load. Three are the fewest from which a spread can be told; each takes minutes of the whole fleet."""
    connections_per_client: Annotated[int, Field(ge=1, le=10_000)] = 1_000
    """Most requests in flight per client process; the number of clients follows from it alone. One process saturates one core; the
    article's clients hold 1,000 each. Fewer where answers are faster than the article's: half a core reads 14,000 chunks a second."""
    prompts_per_client: Annotated[int, Field(ge=100, le=1_000_000)] = 5_000
    """Requests each client sends in each run: five rounds of 1,000 connections, two minutes at the article's load."""
    machine_type: Literal["c4-standard-16", "c4-standard-32", "c4-standard-48"] = "c4-standard-16"
    """Machine of the client pods; the article's is a 16-vCPU C4."""
    slo: Slo | None = None
    """Limits of a good request. Default: none, and no goodput."""


class Monitoring(Section):
    """Managed Prometheus."""

    enabled: bool = True
    """Scrape the server (and the endpoint picker)."""
    interval_seconds: Annotated[int, Field(ge=5, le=300)] = 15
    """Seconds between two scrapes."""
