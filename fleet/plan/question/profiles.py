"""Profiles as plain data for the planner, read from settings/profiles.yaml without the validation of `settings.profiles`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from facts.engines import LONGEST_CONTEXT_TOKENS, Release, Scalar
from facts.ledger import LedgerError
from facts.machines import DEFAULT_MACHINE, Gpu
from facts.memory import DEFAULT_LORA_RANK, DEFAULT_LORAS
from facts.models import ModelShape, called, is_of_qwen35
from facts.releases import CURRENT, USE_DEEP_GEMM, Defect, at, chosen_deep_gemm, number_of
from fleet.plan.model.deployment import EngineShape
from settings import profile_file
from settings.sections import engine_settings

_GRAPH_ESTIMATE = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFacts:
    """One set of engine options and what it is for."""

    name: str
    """Name of the profile, or of the stack if options were overridden."""
    title: str
    model: str
    """Hugging Face repository."""
    weights_gb: float | None
    """Size of the model's files, GB; None if no revision is published."""
    engine_version: str
    workload: str
    """Intended workload: one of workloads.yaml, or one without figures."""
    context_tokens: int
    """Longest prompt plus answer of the intended traffic."""
    flags: Mapping[str, Scalar] = field(default_factory=dict)
    """vLLM options that affect speed, by long name without leading dashes."""
    env: Mapping[str, str] = field(default_factory=dict)
    own_shape: ModelShape | None = None
    """Shape of a stack's own model."""
    gpu: Gpu = DEFAULT_MACHINE.gpu
    """GPU that decides vLLM's defaults."""

    @property
    def shape(self) -> EngineShape:
        """Options that decide memory and speed, defaults filled in."""
        return engine_shape(self.flags, self.env, at(number_of(self.engine_version)), self.gpu)

    @property
    def model_shape(self) -> ModelShape:
        """The model's architecture. Raises LookupError if unknown."""
        return self.own_shape or model_shape(self.model)

    @property
    def slow_product(self) -> Defect | None:
        """The release's defect that slows FP8 products with these options; None without one."""
        if self.model_shape.weight_format != "fp8":
            return None
        chosen = chosen_deep_gemm(self.flags.get("linear-backend"), self.env.get(USE_DEEP_GEMM))
        release = at(number_of(self.engine_version))
        return release.slow_product(self.gpu, qwen35=is_of_qwen35(self.model), deep_gemm=chosen)


def profile_names() -> tuple[str, ...]:
    """Names of all profiles, in file order."""
    return profile_file.names()


@cache
def profile_facts(name: str) -> ProfileFacts:
    """The profile of that name. Raises LedgerError with the known names, or the missing key."""
    entry = profile_file.entry(name)
    engine = engine_settings.by_field(entry["engine"])
    try:
        return ProfileFacts(
            name=name,
            title=entry["title"],
            model=entry["modelId"],
            weights_gb=None if entry["model"] is None else entry["model"]["sizeGb"],
            engine_version=engine.get("version", CURRENT),
            workload=entry["workload"],
            context_tokens=entry["contextTokens"],
            flags=engine_settings.effective_flags(engine),
            env=engine_settings.effective_environment(engine),
        )
    except KeyError as error:
        raise LedgerError(f"{profile_file.NAME}, {name}: {error.args[0]} is missing") from None


def profiles_for(longest_request_tokens: int) -> tuple[ProfileFacts, ...]:
    """Profiles for real traffic whose context fits such a request, shortest context first."""
    # `record`, `tuned` and the article's large model are for the article's workload only.
    serving = [profile_facts(name) for name in profile_names() if name.startswith("serve-")]
    fitting = [one for one in serving if one.shape.max_model_len_tokens >= longest_request_tokens]
    return tuple(sorted(fitting, key=lambda one: one.shape.max_model_len_tokens))


def engine_shape(flags: Mapping[str, Scalar], env: Mapping[str, str], release: Release, gpu: Gpu) -> EngineShape:
    """Convert vLLM options to an engine shape, filling in the release's defaults for that GPU. Raises ValueError."""

    def number(name: str, default: int) -> int:
        return int(flags.get(name, default))

    kv_cache_dtype = str(flags.get("kv-cache-dtype", "auto"))
    engines = number("data-parallel-size", 1)
    api_servers = number("api-server-count", engines)
    return EngineShape(
        data_parallel=engines,
        tensor_parallel=number("tensor-parallel-size", 1),
        max_model_len_tokens=number("max-model-len", LONGEST_CONTEXT_TOKENS),
        max_num_seqs=number("max-num-seqs", release.sequences(gpu)),
        max_num_batched_tokens=number("max-num-batched-tokens", release.batched_tokens(gpu)),
        kv_cache_dtype=kv_cache_dtype,
        ssm_cache_dtype=str(flags.get("mamba-ssm-cache-dtype", "auto")),
        gpu_memory_utilization=float(flags.get("gpu-memory-utilization", release.gpu_memory_share)),
        prefix_caching=flags.get("enable-prefix-caching", release.has("caches-prefixes-of-hybrids")) is True,
        speculative_tokens=number("speculative-config.num_speculative_tokens", 0),
        captured_tokens=0
        if flags.get("enforce-eager") is True
        else number("max-cudagraph-capture-size", release.captured_tokens(gpu)),
        estimate_cudagraphs=env.get(_GRAPH_ESTIMATE, "1" if release.has("counts-cuda-graphs") else "0") == "1",
        language_model_only=flags.get("language-model-only") is True,
        max_loras=number("max-loras", DEFAULT_LORAS) if flags.get("enable-lora") is True else 0,
        max_lora_rank=number("max-lora-rank", DEFAULT_LORA_RANK),
        stream_interval=number("stream-interval", 1),
        api_servers=None if api_servers == engines else api_servers,
    )


def model_shape(model: str) -> ModelShape:
    """The shape of a Hugging Face repository. Raises LookupError if the catalogue does not list it."""
    shape = called([model])
    if shape is None:
        raise LookupError(f"model {model} is not known; `fleet models` lists the known ones")
    return shape
