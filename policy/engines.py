"""A vLLM server as its rules see it: what its flags, environment, image and annotations come to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from facts import memory
from facts.engines import (
    DEFAULT_BATCHED_TOKENS,
    DEFAULT_GPU_MEMORY_SHARE,
    DEFAULT_SEQUENCES,
    LONGEST_CONTEXT_TOKENS,
    Flags,
)
from pods import Server, servers
from rule import Finding, Resource, Settings

CONTEXT_ANNOTATION: Final = "vllm-fleet.dev/context-tokens"
"""Longest prompt plus answer that the traffic needs."""
CONCURRENCY_ANNOTATION: Final = "vllm-fleet.dev/concurrency-per-replica"
"""Requests in flight per replica at peak."""
MODEL_ANNOTATION: Final = "vllm-fleet.dev/model"
REVISION_ANNOTATION: Final = "vllm-fleet.dev/model-revision"

_RELEASE: Final = re.compile(r"v?([0-9]+)\.([0-9]+)(?:\.([0-9]+))?(?![0-9.])")
# Source: vLLM 0.18's own announcement of the next release's default, v1/worker/gpu_worker.py.
_ESTIMATES_BY_DEFAULT: Final = (0, 19, 0)

Release = tuple[int, int, int]


@dataclass(frozen=True)
class Engine:
    """One vLLM server container."""

    server: Server

    @property
    def flags(self) -> Flags:
        """Its options."""
        return self.server.flags

    @property
    def label(self) -> str:
        """How a message names it."""
        return self.server.label

    def found(self, what: str, *, why: str = "", fix: str = "") -> Finding:
        """A finding about this server."""
        return Finding(what=f"{self.label}: {what}", why=why, fix=fix)

    # What it serves

    @cached_property
    def model_names(self) -> tuple[str, ...]:
        """Every name its model goes by: path or repository, name for clients, declared name."""
        names = (self.flags.model, self.flags.text("served-model-name"), self.server.pod.annotation(MODEL_ANNOTATION))
        return tuple(name for name in names if name)

    @property
    def model(self) -> str:
        """The first of its names."""
        return self.model_names[0] if self.model_names else "the model"

    def is_called(self, part: str) -> bool:
        """Whether a name of its model contains this."""
        return any(part in name for name in self.model_names)

    @property
    def is_hybrid(self) -> bool:
        """Whether linear layers with a state mix with attention: the Qwen3.5 family."""
        return self.is_called("Qwen3.5")

    @cached_property
    def architecture(self) -> memory.HybridArchitecture | None:
        """The model's architecture, None where the facts have none for it."""
        return next((known for part, known in memory.ARCHITECTURES.items() if self.is_called(part)), None)

    # What its image is

    @property
    def image(self) -> str:
        """Its image."""
        return self.server.container.image

    @property
    def tag(self) -> str:
        """The image's tag, empty where it has none."""
        name = self.image.partition("@")[0].rpartition("/")[2]
        return name.partition(":")[2]

    @property
    def release(self) -> Release | None:
        """The vLLM release by the image's tag, None where the tag is no release."""
        match = _RELEASE.match(self.tag)
        return None if match is None else (int(match[1]), int(match[2]), int(match[3] or 0))

    def env(self, name: str) -> str | None:
        """A variable's literal value."""
        return self.server.container.env(name)

    # What its memory is split into

    @property
    def utilisation(self) -> float:
        """Share of each GPU's memory it may take."""
        return self.flags.number("gpu-memory-utilization") or DEFAULT_GPU_MEMORY_SHARE

    @property
    def kv_cache_dtype(self) -> str:
        """Type of keys and values."""
        return self.flags.text("kv-cache-dtype") or "auto"

    @property
    def has_bf16_cache(self) -> bool:
        """Whether keys and values take two bytes."""
        return self.kv_cache_dtype in memory.TWO_BYTE_CACHES

    @property
    def estimates_cudagraphs(self) -> bool:
        """Whether CUDA graphs are counted in the share: by the variable, or by the release's default."""
        chosen = self.env("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS")
        if chosen is not None:
            return chosen.strip() == "1"
        release = self.release
        return release is not None and release >= _ESTIMATES_BY_DEFAULT

    @property
    def prefix_caching(self) -> bool:
        """Whether prefix caching is on: of a hybrid model only when asked for, of others unless refused."""
        asked = self.flags.on("enable-prefix-caching")
        return not self.is_hybrid if asked is None else asked

    @property
    def layout(self) -> memory.CacheLayout | None:
        """Its cache, None where the architecture is not known or a type is not one of vLLM's."""
        if self.architecture is None:
            return None
        try:
            return memory.CacheLayout(
                architecture=self.architecture,
                kv_cache_dtype=self.kv_cache_dtype,
                speculative_tokens=self.flags.speculative_tokens,
                ssm_cache_dtype=self.flags.text("mamba-ssm-cache-dtype") or "auto",
                prefix_caching=self.prefix_caching,
            )
        except ValueError:
            return None

    # What it admits and what is asked of it

    @property
    def sequences(self) -> int:
        """Sequences one engine may run at once."""
        return self.flags.count("max-num-seqs") or DEFAULT_SEQUENCES

    @property
    def batched_tokens(self) -> int:
        """Tokens one engine computes in a step."""
        return self.flags.count("max-num-batched-tokens") or DEFAULT_BATCHED_TOKENS

    @property
    def context_tokens(self) -> int | None:
        """Longest prompt plus answer it takes; None where vLLM chooses and the model's own limit is not known."""
        chosen = self.flags.text("max-model-len")
        if chosen in ("auto", "-1"):
            return None
        if chosen is not None:
            return self.flags.count("max-model-len")
        return LONGEST_CONTEXT_TOKENS if self.is_hybrid else None

    @property
    def needed_context_tokens(self) -> int | None:
        """What the workload declares."""
        return _whole(self.server.pod.annotation(CONTEXT_ANNOTATION))

    @property
    def offered_concurrency(self) -> int | None:
        """What the workload declares, per replica."""
        return _whole(self.server.pod.annotation(CONCURRENCY_ANNOTATION))


def each_engine(
    judge: Callable[[Engine, Settings], Iterator[Finding]],
) -> Callable[[Resource, Settings], Iterator[Finding]]:
    """A rule about one vLLM server as a rule about the resource that runs it."""

    def over(resource: Resource, settings: Settings) -> Iterator[Finding]:
        if "engines" not in resource.parsed:
            resource.parsed["engines"] = tuple(Engine(server) for server in servers(resource))
        for engine in resource.parsed["engines"]:
            yield from judge(engine, settings)

    return over


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdecimal() else None
