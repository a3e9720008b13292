"""Profiles as the planner knows them: plain data, and what their options mean to the model.

They are read from settings/profiles.yaml without the validation that `settings.profiles` gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from facts.engines import DEFAULT, LONGEST_CONTEXT_TOKENS, Release, Scalar
from facts.ledger import LedgerError
from facts.machines import DEFAULT_MACHINE, Gpu
from facts.models import ModelShape, called
from facts.releases import at, number_of
from fleet.plan.model.deployment import EngineShape
from settings import profile_file
from settings.sections import engine_settings

_GRAPH_ESTIMATE = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFacts:
    """What a plan needs to know of one set of engine options."""

    name: str
    """The profile, or the stack where options were overridden."""
    title: str
    model: str
    """Hugging Face repository."""
    weights_gb: float | None
    """GB of the model's files; None where nobody has published a revision to measure."""
    engine_version: str
    workload: str
    """What it is for: a workload of workloads.yaml, or one without figures."""
    context_tokens: int
    """Longest prompt plus answer that the traffic it is for needs."""
    flags: Mapping[str, Scalar] = field(default_factory=dict)
    """vLLM's options that bear on speed, by long name without dashes."""
    env: Mapping[str, str] = field(default_factory=dict)
    reproduces: str | None = None
    """The published row it repeats."""
    own_shape: ModelShape | None = None
    """The model's shape where a stack has one of its own."""
    gpu: Gpu = DEFAULT_MACHINE.gpu
    """By which vLLM chooses what the options leave out."""

    @property
    def shape(self) -> EngineShape:
        """The options that decide memory and speed, spelled out."""
        return engine_shape(self.flags, self.env, at(number_of(self.engine_version)), self.gpu)

    @property
    def model_shape(self) -> ModelShape:
        """The model's architecture. Raises LookupError where the planner has none for it."""
        return self.own_shape or model_shape(self.model)


def profile_names() -> tuple[str, ...]:
    """Every profile, in the order of the file."""
    return profile_file.names()


@cache
def profile_facts(name: str) -> ProfileFacts:
    """The profile of that name. Raises LedgerError with the names there are, or with the key that is missing."""
    entry = profile_file.entry(name)
    engine = engine_settings.by_field(entry["engine"])
    try:
        return ProfileFacts(
            name=name,
            title=entry["title"],
            model=entry["modelId"],
            weights_gb=None if entry["model"] is None else entry["model"]["sizeGb"],
            engine_version=engine.get("version", DEFAULT),
            workload=entry["workload"],
            context_tokens=entry["contextTokens"],
            flags=engine_settings.effective_flags(engine),
            env=engine_settings.effective_environment(engine),
            reproduces=entry.get("reproduces"),
        )
    except KeyError as error:
        raise LedgerError(f"{profile_file.NAME}, {name}: {error.args[0]} is missing") from None


def profiles_for(longest_request_tokens: int) -> tuple[ProfileFacts, ...]:
    """Profiles for real traffic whose context holds such a request, the shortest context first."""
    # The article's phases are there to be repeated, and `tuned` is for its workload alone.
    serving = [profile_facts(name) for name in profile_names() if name.startswith("serve-")]
    fitting = [one for one in serving if one.shape.max_model_len_tokens >= longest_request_tokens]
    return tuple(sorted(fitting, key=lambda one: one.shape.max_model_len_tokens))


def engine_shape(flags: Mapping[str, Scalar], env: Mapping[str, str], release: Release, gpu: Gpu) -> EngineShape:
    """What a list of vLLM options means to the model, the release's own defaults for that GPU filled in. Raises ValueError."""

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
        api_servers=None if api_servers == engines else api_servers,
    )


def model_shape(model: str) -> ModelShape:
    """The shape of that Hugging Face repository. Raises LookupError where the catalogue has none of its name."""
    shape = called([model])
    if shape is None:
        raise LookupError(f"the planner does not know {model}; `fleet models` lists the models that it knows")
    return shape
