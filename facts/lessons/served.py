"""A vLLM server for the lessons: declared in a stack file, rendered as a pod, or running."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from facts import experts, memory
from facts.engines import DEFAULT, LONGEST_CONTEXT_TOKENS, Flags, Release, find
from facts.machines import B200, DEFAULT_MACHINE, Gpu
from facts.model_config import EXPERTS, ModelShape
from facts.models import CATALOGUE, EXPERTS_IN_A_NAME, called, is_of_qwen35, of_the_article, parts_of
from facts.releases import USE_DEEP_GEMM, Defect, chosen_deep_gemm, of_tag

ESTIMATE_CUDAGRAPHS = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
_LEAST_LEVEL_OF_WHOLE_STEPS = 2
READY_TIMEOUT = "VLLM_ENGINE_READY_TIMEOUT_S"


class Served(ABC):
    """One vLLM server: its observed properties, and those derived from them. All are evaluated lazily."""

    @property
    @abstractmethod
    def flags(self) -> Flags:
        """The server's options."""

    @property
    @abstractmethod
    def model_names(self) -> tuple[str, ...]:
        """All names of the model."""

    @property
    @abstractmethod
    def tag(self) -> str:
        """Tag of the image, or empty."""

    @abstractmethod
    def env(self, name: str) -> str | None:
        """Literal value of an environment variable."""

    @property
    @abstractmethod
    def variables(self) -> Mapping[str, str | None]:
        """All environment variables, without those that the program itself sets; None if the value comes from elsewhere."""

    @property
    @abstractmethod
    def tensor_parallel_reason(self) -> str:
        """Why a model that fits one GPU is split over several; empty if nothing says it."""

    @property
    def why_production(self) -> str:
        """Why the server is production's; empty if it is not known to be."""
        return ""

    @property
    def is_declared(self) -> bool:
        """Whether it is the server of a stack file, whose pod, Service and probes are known."""
        return False

    @property
    @abstractmethod
    def gpu(self) -> Gpu | None:
        """The GPU; None if unknown."""

    @property
    def judged_gpu(self) -> Gpu:
        """The GPU for memory and defaults: the server's, or the article's if unknown."""
        return self.gpu or DEFAULT_MACHINE.gpu

    @property
    def is_on_b200(self) -> bool:
        """Whether the GPUs are known to be B200."""
        return self.gpu is B200

    @property
    @abstractmethod
    def gpus(self) -> int:
        """GPUs that the pod requests."""

    @property
    @abstractmethod
    def cores(self) -> float | None:
        """CPU request, or None."""

    @property
    @abstractmethod
    def ready_seconds(self) -> float | None:
        """How long the API servers wait for the engines; None if unknown."""

    @property
    @abstractmethod
    def startup_seconds(self) -> float | None:
        """How long startup may take before the pod is killed; None without a limit."""

    @property
    @abstractmethod
    def needed_context_tokens(self) -> int | None:
        """Longest prompt plus output of the expected traffic; None if not declared."""

    @property
    @abstractmethod
    def offered_concurrency(self) -> int | None:
        """Peak requests in flight per replica; None if not declared."""

    @property
    def answering_engines(self) -> int:
        """Engines that hold sequences until they end: all, with prefill apart those of decode."""
        return self.flags.engines

    @property
    def declared_weights_gb(self) -> float | None:
        """Declared size of the weights, or None."""
        return None

    # Model

    @property
    def model(self) -> str:
        """First name of the model."""
        return self.model_names[0] if self.model_names else "the model"

    def is_called(self, part: str) -> bool:
        """Whether a name of the model contains this text."""
        return any(part in name for name in self.model_names)

    @property
    def is_of_qwen35(self) -> bool:
        """Whether the model is of the family whose drafts and kernels were measured."""
        return any(map(is_of_qwen35, self.model_names))

    @property
    def is_hybrid(self) -> bool:
        """Whether the model combines linear layers with a state and attention; by its name if the shape is unknown."""
        return self.is_of_qwen35 if self.shape is None else self.shape.kind == "hybrid"

    @property
    def is_dense(self) -> bool:
        """Whether the model is known to have no experts."""
        return self.parts is not None and EXPERTS not in self.parts

    @property
    def parts(self) -> frozenset[str] | None:
        """Parts of the model's architecture that options apply to; None if unknown."""
        return parts_of(self.model_names, self.shape)

    @property
    def has_experts(self) -> bool:
        """Whether the model is known to be a mixture of experts, by its shape, its name or the server's options."""
        if self.shape is not None:
            return self.shape.experts > 0
        named = any(EXPERTS_IN_A_NAME.search(name) for name in self.model_names)
        return named or (self.flags.on("enable-expert-parallel") is True and not self.is_dense)

    @property
    def expert_format(self) -> str:
        """Number format of its experts, for `facts.experts`; empty for other models."""
        return experts.expert_format(self.shape, self.model_names) if self.has_experts else ""

    @property
    def has_fp8_weights(self) -> bool:
        """Whether most weights are known to be FP8, by the shape, else by the model's name."""
        if self.shape is not None:
            return self.shape.weight_format == "fp8"
        return any("FP8" in name.upper() for name in self.model_names)

    @property
    def shape(self) -> ModelShape | None:
        """The model's shape; None if unknown."""
        return called(self.model_names)

    @property
    def architecture(self) -> memory.Architecture | None:
        """The part of the model on one GPU, for the cache."""
        return None if self.shape is None else self.shape.architecture.on_one_of(self.flags.tensor_parallel_size)

    def weights_gb(self, told: Mapping[str, float]) -> tuple[str, float] | None:
        """Name of the model and size of its weights: as declared, as in `told` (a team's models), or the catalog's."""
        if self.declared_weights_gb is not None:
            return self.model, self.declared_weights_gb
        named = next(((part, float(size)) for part, size in told.items() if self.is_called(part)), None)
        return named or (None if self.shape is None else (self.shape.name, CATALOGUE[self.shape.name].size_gb))

    @property
    def release(self) -> Release | None:
        """The vLLM release of the image's tag; None if the tag is not a release."""
        return of_tag(self.tag)

    @property
    def read_as(self) -> Release:
        """The release for defaults: the server's, or the article's if unknown."""
        return self.release or find(DEFAULT)

    @property
    def mtp_tokens(self) -> int:
        """Draft tokens with MTP; 0 for other model families, whose draft layers were not measured."""
        return self.flags.speculative_tokens if self.is_of_qwen35 and self.flags.uses_mtp else 0

    @property
    def wants_deep_gemm(self) -> bool | None:
        """Whether the options choose DeepGEMM for FP8 products; None if they leave it to vLLM."""
        return chosen_deep_gemm(self.flags.text("linear-backend"), self.env(USE_DEEP_GEMM))

    @property
    def slow_product(self) -> Defect | None:
        """The release's defect that slows this server's FP8 products; None without one, or if release or GPU are unknown."""
        if self.release is None or self.gpu is None or not self.has_fp8_weights:
            return None
        return self.release.slow_product(self.gpu, qwen35=self.is_of_qwen35, deep_gemm=self.wants_deep_gemm)

    # Memory

    @property
    def utilisation(self) -> float:
        """Share of each GPU's memory that vLLM may use."""
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
        """Whether CUDA graphs are counted in the utilization: by the variable, or by the release's default."""
        chosen = self.env(ESTIMATE_CUDAGRAPHS)
        if chosen is not None:
            return chosen.strip() == "1"
        return self.read_as.has("counts-cuda-graphs")

    @property
    def prefix_caching(self) -> bool:
        """Whether prefix caching is enabled."""
        return self.read_as.caches_prefixes(self.flags.on("enable-prefix-caching"), hybrid=self.is_hybrid)

    @property
    def needs_state_mode(self) -> bool:
        """Whether prefix caching of this hybrid model needs `--mamba-cache-mode`. A release that caches by default chooses the mode, too,
        and ignores the flag: prefix caching implies align (facts/data/h100.yaml).
        """
        return self.is_hybrid and self.prefix_caching and not self.read_as.has("caches-prefixes-of-hybrids")

    @property
    def layout(self) -> memory.CacheLayout | None:
        """The cache; None for an unknown architecture or an invalid type."""
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
        """GiB for the cache on one GPU with weights of this size; 0 for an invalid utilization."""
        share = self.utilisation
        if not 0 < share <= 1:
            return 0
        return memory.cache_gib_per_gpu(
            gpu_memory_utilization=share,
            weights_and_draft_gib=weights_gib + self.adapters_gib,
            logits_gib=self.logits_gib,
            gpu_memory_gib=self.judged_gpu.memory_gib,
        )

    @property
    def adapters_gib(self) -> float:
        """GiB of one GPU for slots of LoRA adapters; 0 without them, or if the model's shape is unknown."""
        return self.adapters_gib_on(self.flags.tensor_parallel_size)

    def adapters_gib_on(self, gpus: int) -> float:
        """The same if this many GPUs shared the model."""
        if self.shape is None or self.flags.on("enable-lora") is not True:
            return 0.0
        return memory.adapter_slots_gib(
            self.shape.adapter_widths,
            slots=self.flags.count("max-loras") or memory.DEFAULT_LORAS,
            rank=self.flags.count("max-lora-rank") or memory.DEFAULT_LORA_RANK,
            ranks=gpus,
        )

    @property
    def logits_gib(self) -> float:
        """GiB for the logits of all sequences in the startup step."""
        return memory.startup_logits_gib(
            max_num_seqs=self.sequences,
            max_num_batched_tokens=self.batched_tokens,
            vocabulary=(self.shape or of_the_article()).vocabulary,
            drafts=self.flags.speculative_tokens > 0,
        )

    # Limits

    @property
    def refuses_sequences_above_states(self) -> bool:
        """Whether vLLM exits at startup with more sequences than cache blocks of a hybrid model, instead of leaving them waiting.

        Source: vLLM 0.33.0 (read, not run), config/compilation.py, resolve_cudagraph_mode_and_sizes: only with graphs of whole decode
        steps; config/vllm.py: the modes of each `-O`. 0.18.1 captures smaller graphs instead (adjust_cudagraph_sizes_for_mamba_cache).
        """
        flags = self.flags
        mode = str(flags.json("compilation-config").get("cudagraph_mode") or "").upper()
        level = flags.count("optimization-level")
        captures = "FULL" in mode if mode else level is None or level >= _LEAST_LEVEL_OF_WHOLE_STEPS
        return self.read_as.has("refuses-sequences-above-states") and captures and flags.on("enforce-eager") is not True

    @property
    def has_measured_states(self) -> bool:
        """Whether the memory that weights leave to recurrent states was measured: for the article's model on one B200 per engine."""
        return self.is_on_b200 and self.flags.tensor_parallel_size == 1 and self.shape == of_the_article()

    @property
    def sequences(self) -> int:
        """Maximum concurrent sequences of one engine."""
        return self.flags.count("max-num-seqs") or self.read_as.sequences(self.judged_gpu)

    @property
    def batched_tokens(self) -> int:
        """Maximum tokens of one engine's step."""
        return self.flags.count("max-num-batched-tokens") or self.read_as.batched_tokens(self.judged_gpu)

    @property
    def context_tokens(self) -> int | None:
        """Longest prompt plus output; None if vLLM chooses and the model's limit is unknown."""
        chosen = self.flags.text("max-model-len")
        if chosen in ("auto", "-1"):
            return None
        if chosen is not None:
            return self.flags.count("max-model-len")
        if self.shape is not None:
            return self.shape.context_tokens
        return LONGEST_CONTEXT_TOKENS if self.is_of_qwen35 else None
