"""Section `benchmark`: the benchmark Job."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from settings.sections.section import Section, like

_OBJECT: Final = re.compile(r"gs://([a-z0-9][-_.a-z0-9]{1,220}[a-z0-9])/([^\s?#]+)")


def _can_be_read(url: str) -> str:
    """The URL. Raises ValueError for one that the benchmark's pods cannot download from."""
    parts = urlsplit(url)
    is_https = parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc
    if not (_OBJECT.fullmatch(url) or (is_https and not set(url) & set(" \t\r\n"))):
        raise ValueError("https://HOST/PATH without credentials, or gs://BUCKET/OBJECT")
    return url


class Dataset(Section):
    """The file with a benchmark's requests."""

    url: Annotated[str, AfterValidator(_can_be_read)]
    """URL of the file: `https://HOST/PATH`, downloaded without credentials, or `gs://BUCKET/OBJECT`, read with the benchmark pods'
    identity, which gets read access to that object."""
    sha256: Annotated[str, like(r"^[0-9a-f]{64}$", "64 hexadecimal digits in lowercase")]
    """SHA-256 of the file (`sha256sum FILE`). A changed file is a different workload."""

    @property
    def bucket_and_object(self) -> tuple[str, str] | None:
        """Bucket and object of a `gs://` URL; None for any other URL."""
        match = _OBJECT.fullmatch(self.url)
        return None if match is None else (match[1], match[2])


class Slo(Section):
    """Limits of a good request. Goodput counts good requests only."""

    ttft_ms: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Maximum time to first token (TTFT) in milliseconds. Default: no limit."""
    tpot_ms: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Maximum mean time per output token after the first (TPOT) in milliseconds. Default: no limit."""


WorkloadName = Literal["article", "vllm-1024-512", "shared-prefix-512", "sharegpt", "trace"]
"""The workloads of facts/data/workloads.yaml; a test compares the two lists."""


class Benchmark(Section):
    """The article's benchmark as a Job in the cluster."""

    enabled: bool = False
    """Create the benchmark's service account, network access and bucket permissions, and the Job if `runOnUpdate` is true."""
    run_on_update: bool = True
    """true: `pulumi up` runs the Job when the server is ready, on C4 nodes that are billed while it runs. false: only
    `fleet bench run` runs it."""
    workload: WorkloadName = "article"
    """Shape of the requests. `article`: 512-1024 input tokens, 256-512 output tokens. `vllm-1024-512`: as `--random-range-ratio 0.5`
    generates them in current releases, a third longer. `shared-prefix-512`: the article's output, prompts of 768-1024 tokens with
    the same first 512. `sharegpt`: conversations of a ShareGPT file. `trace`: lengths or prompts of a JSONL file."""
    dataset: Dataset | None = None
    """The file for `sharegpt` and `trace`; not used by the other workloads, which generate prompts."""
    concurrency: (
        Annotated[tuple[Annotated[int, Field(ge=1, le=100_000)], ...], Field(min_length=1, max_length=32)] | None
    ) = None
    """Requests in flight per replica, one run for each value. Default: one run at `server.needs.concurrencyPerReplica`, else the
    profile's (2,000 in the article)."""
    repeats: Annotated[int, Field(ge=1, le=20)] = 3
    """Runs of each load. At least three are needed to estimate the spread; each takes minutes of the whole fleet."""
    connections_per_client: Annotated[int, Field(ge=1, le=10_000)] = 1_000
    """Maximum requests in flight per client process, which determines the number of clients, and with it the machine of their one pod, C4
    with 16, 32 or 48 vCPU. A process can use one core; the article's clients have 1,000 connections each, on 16 vCPU. Use fewer if
    responses are faster than the article's: half a core reads 14,000 chunks a second."""
    prompts_per_client: Annotated[int, Field(ge=100, le=1_000_000)] = 5_000
    """Requests per client and run. The default is five rounds of 1,000 connections, two minutes at the article's load."""
    slo: Slo | None = None
    """Limits of a good request, for goodput. Default: none."""
