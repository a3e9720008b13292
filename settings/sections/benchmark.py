"""Section `benchmark`: the benchmark Job."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from settings.sections.section import Section


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
    """Machine of the client pods, one each: their requests fit this one and no smaller one. The article's is a 16-vCPU C4."""
    slo: Slo | None = None
    """Limits of a good request. Default: none, and no goodput."""
