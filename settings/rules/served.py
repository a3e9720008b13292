"""A vLLM server as lessons see it, whether it is declared in a stack file, rendered into a pod, or running."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from facts import memory
from facts.engines import DEFAULT, LONGEST_CONTEXT_TOKENS, Flags, Release, find
from facts.machines import B200, DEFAULT_MACHINE, Gpu
from facts.models import CATALOGUE, EXPERTS, EXPERTS_IN_A_NAME, ModelShape, called, of_the_article, parts_of
from facts.releases import of_tag

ESTIMATE_CUDAGRAPHS = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
USE_DEEP_GEMM = "VLLM_USE_DEEP_GEMM"
USE_FLASHINFER_MOE = "VLLM_USE_FLASHINFER_MOE_"
"""With FP4 or FP8 behind it: 0 keeps FlashInfer's kernels away from the experts."""
READY_TIMEOUT = "VLLM_ENGINE_READY_TIMEOUT_S"


class Served(ABC):
    """One vLLM server: a few things that are read where it is found, and what follows from them.

    Everything is read when it is asked for and not before.
    """

    @property
    @abstractmethod
    def flags(self) -> Flags:
        """Its options."""

    @property
    @abstractmethod
    def model_names(self) -> tuple[str, ...]:
        """Every name its model goes by."""

    @property
    @abstractmethod
    def tag(self) -> str:
        """Its image's tag, empty where it has none."""

    @abstractmethod
    def env(self, name: str) -> str | None:
        """A variable's literal value."""

    @property
    @abstractmethod
    def gpu(self) -> Gpu | None:
        """Its GPU; None where that is not known."""

    @property
    def judged_gpu(self) -> Gpu:
        """The GPU by whose memory and defaults it is judged: its own, or the article's where it is not known."""
        return self.gpu or DEFAULT_MACHINE.gpu

    @property
    def is_on_b200(self) -> bool:
        """Whether its GPUs are known to be B200."""
        return self.gpu is B200

    @property
    @abstractmethod
    def has_gpus(self) -> bool:
        """Whether its pod asks for any GPU."""

    @property
    @abstractmethod
    def cores(self) -> float | None:
        """CPUs that it requests, None where it requests none."""

    @property
    @abstractmethod
    def ready_seconds(self) -> float | None:
        """How long the API servers wait for the engines; None where that is not known here."""

    @property
    @abstractmethod
    def startup_seconds(self) -> float | None:
        """How long a start may take before the pod is killed; None where nothing kills it."""

    @property
    @abstractmethod
    def needed_context_tokens(self) -> int | None:
        """Longest prompt plus answer that the traffic needs; None where nobody says."""

    @property
    @abstractmethod
    def offered_concurrency(self) -> int | None:
        """Requests in flight per replica at peak; None where nobody says."""

    @property
    def declared_weights_gb(self) -> float | None:
        """Size of the weights where it is declared."""
        return None

    # What it serves

    @property
    def model(self) -> str:
        """The first of its model's names."""
        return self.model_names[0] if self.model_names else "the model"

    def is_called(self, part: str) -> bool:
        """Whether a name of its model contains this."""
        return any(part in name for name in self.model_names)

    @property
    def is_of_qwen35(self) -> bool:
        """Whether it is of the family whose drafts and kernels were measured."""
        return self.is_called("Qwen3.5")

    @property
    def is_hybrid(self) -> bool:
        """Whether linear layers with a state mix with attention; by the family's name where the shape is not known."""
        return self.is_of_qwen35 if self.shape is None else self.shape.kind == "hybrid"

    @property
    def is_dense(self) -> bool:
        """Whether its model is known to have no experts."""
        return self.parts is not None and EXPERTS not in self.parts

    @property
    def parts(self) -> frozenset[str] | None:
        """What its model's architecture has of what options are for; None where the facts do not know it."""
        return parts_of(self.model_names, self.shape)

    @property
    def has_experts(self) -> bool:
        """Whether its model is known to be a mixture of experts: by its name, or because the server spreads experts."""
        if self.shape is not None:
            return self.shape.experts > 0
        named = any(EXPERTS_IN_A_NAME.search(name) for name in self.model_names)
        return named or (self.flags.on("enable-expert-parallel") is True and not self.is_dense)

    @property
    def expert_format(self) -> str:
        """Number format of a mixture of experts with less than 16 bits, by its name: FP4 or FP8; empty for every other."""
        if not self.has_experts:
            return ""
        return next((form for form in ("FP4", "FP8") if any(form in name.upper() for name in self.model_names)), "")

    @property
    def shape(self) -> ModelShape | None:
        """The model's shape, None where the facts have none for it."""
        return called(self.model_names)

    @property
    def architecture(self) -> memory.Architecture | None:
        """What one of its GPUs caches for."""
        return None if self.shape is None else self.shape.architecture.on_one_of(self.flags.tensor_parallel_size)

    def weights_gb(self, told: Mapping[str, float]) -> tuple[str, float] | None:
        """A name of the model and the size of its weights: as declared, as a team tells of its own models, or the catalogue's."""
        if self.declared_weights_gb is not None:
            return self.model, self.declared_weights_gb
        named = next(((part, float(size)) for part, size in told.items() if self.is_called(part)), None)
        return named or (None if self.shape is None else (self.shape.name, CATALOGUE[self.shape.name].size_gb))

    @property
    def release(self) -> Release | None:
        """The vLLM release by the image's tag, None where the tag is no release."""
        return of_tag(self.tag)

    @property
    def read_as(self) -> Release:
        """The release by whose defaults it is judged: its own, or the article's where the tag is no release."""
        return self.release or find(DEFAULT)

    # What it drafts

    @property
    def mtp_tokens(self) -> int:
        """Tokens that the model's own draft layer drafts ahead; 0 for other families, whose layers were not measured."""
        return self.flags.speculative_tokens if self.is_of_qwen35 and self.flags.uses_mtp else 0

    # What its memory is split into

    @property
    def utilisation(self) -> float:
        """Share of each GPU's memory it may take."""
        return self.flags.number("gpu-memory-utilization") or self.read_as.gpu_memory_share

    @property
    def kv_cache_dtype(self) -> str:
        """Type of keys and values."""
        return self.flags.text("kv-cache-dtype") or "auto"

    @property
    def has_two_byte_cache(self) -> bool:
        """Whether keys and values take two bytes."""
        return self.kv_cache_dtype in memory.TWO_BYTE_CACHES

    @property
    def estimates_cudagraphs(self) -> bool:
        """Whether CUDA graphs are counted in the share: by the variable, or by the release's default."""
        chosen = self.env(ESTIMATE_CUDAGRAPHS)
        if chosen is not None:
            return chosen.strip() == "1"
        return self.read_as.has("counts-cuda-graphs")

    @property
    def prefix_caching(self) -> bool:
        """Whether prefix caching is on: by default, except for a hybrid model before that became its default, too."""
        asked = self.flags.on("enable-prefix-caching")
        return (not self.is_hybrid or self.read_as.has("caches-prefixes-of-hybrids")) if asked is None else asked

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
                block_tokens=self.flags.count("block-size"),
                batched_tokens=self.batched_tokens,
            )
        except ValueError:
            return None

    def cache_gib(self, *, weights_gib: float = memory.WEIGHTS_AND_DRAFT_GIB) -> float:
        """GiB that weights of this size leave for the cache on one of its GPUs; 0 for a share that vLLM refuses."""
        share = self.utilisation
        if not 0 < share <= 1:
            return 0
        return memory.cache_gib_per_gpu(
            gpu_memory_utilization=share,
            weights_and_draft_gib=weights_gib,
            logits_gib=self.logits_gib,
            gpu_memory_gib=self.judged_gpu.memory_gib,
        )

    @property
    def logits_gib(self) -> float:
        """GiB that the start-up step takes for the logits of as many sequences as it may run."""
        return memory.startup_logits_gib(
            max_num_seqs=self.sequences,
            max_num_batched_tokens=self.batched_tokens,
            vocabulary=(self.shape or of_the_article()).vocabulary,
            drafts=self.flags.speculative_tokens > 0,
        )

    # What it admits

    @property
    def sequences(self) -> int:
        """Sequences one engine may run at once."""
        return self.flags.count("max-num-seqs") or self.read_as.sequences(self.judged_gpu)

    @property
    def batched_tokens(self) -> int:
        """Tokens one engine computes in a step."""
        return self.flags.count("max-num-batched-tokens") or self.read_as.batched_tokens(self.judged_gpu)

    @property
    def context_tokens(self) -> int | None:
        """Longest prompt plus answer it takes; None where vLLM chooses and the model's own limit is not known."""
        chosen = self.flags.text("max-model-len")
        if chosen in ("auto", "-1"):
            return None
        if chosen is not None:
            return self.flags.count("max-model-len")
        if self.shape is not None:
            return self.shape.context_tokens
        return LONGEST_CONTEXT_TOKENS if self.is_of_qwen35 else None
