"""The engine section: what one value alone can get wrong, and how an engine is described to the ledger."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from settings.sections import engine_settings
from settings.sections.engine import (
    ENVIRONMENT,
    Engine,
    Speculative,
    effective_environment,
    effective_flags,
    flag_fields,
)
from tests.support.rows import each_row


def refusal(**changes: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        Engine.model_validate(changes)
    return str(caught.value)


@each_row(
    ("key", "value"),
    [
        ("maxModelLen", "4096"),
        ("maxModelLen", 4096.0),
        ("maxModelLen", True),
        ("maxModelLen", 0),
        ("maxModelLen", 1_010_001),
        ("yarn", {"factor": 1}),
        ("yarn", {"factor": 4.1}),
        ("yarn", {}),
        ("dataParallelSize", 9),
        ("tensorParallelSize", 0),
        ("gpuMemoryUtilization", 0),
        ("gpuMemoryUtilization", 1.01),
        ("gpuMemoryUtilization", "0.9"),
        ("kvCacheDtype", "fp4"),
        ("attentionBackend", "flashinfer"),
        ("optimizationLevel", 4),
        ("mambaCacheMode", "aligned"),
        ("enablePrefixCaching", "true"),
        ("speculative", {"method": "eagle", "numSpeculativeTokens": 1}),
        ("speculative", {"method": "mtp"}),
        ("speculative", {"method": "mtp", "numSpeculativeTokens": 0}),
        ("version", "latest"),
        ("reasoningParser", "deepseek_r9"),
        ("servedModelName", "two words"),
    ],
)
def test_a_value_outside_its_type_or_range_is_refused_under_its_own_key(key: str, value: Any) -> None:
    assert key in refusal(**{key: value})


def test_an_engine_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Engine().max_model_len = 1  # type: ignore[misc]


def test_changes_are_laid_over_and_the_rest_stays() -> None:
    engine = Engine(data_parallel_size=8, max_model_len=2560, speculative=Speculative(num_speculative_tokens=1))
    changed = engine.but({"maxModelLen": 8192})
    assert (changed.max_model_len, changed.data_parallel_size, changed.speculative_tokens) == (8192, 8, 1)
    assert engine.max_model_len == 2560


def test_a_change_to_null_takes_a_flag_away() -> None:
    engine = Engine(speculative=Speculative(num_speculative_tokens=1), mamba_block_size=8)
    assert engine.but({"speculative": None, "mambaBlockSize": None}) == Engine()


def test_a_change_is_validated_like_a_setting() -> None:
    with pytest.raises(ValidationError, match="maxNumSeqs"):
        Engine().but({"maxNumSeqs": "many"})


def test_there_is_one_api_server_per_rank_unless_their_number_is_given() -> None:
    engine = Engine(data_parallel_size=8)
    assert engine.api_servers == 8
    assert engine.but({"apiServerCount": 3}).api_servers == 3


@each_row(
    ("extra", "reason"),
    [
        ("-O2", "must be one string"),
        ("--long-prefill-token-threshold 4", "must be one string"),
        ("long-prefill-token-threshold=4", "must be one string"),
        ("--max-num-seqs=64", "server.engine.maxNumSeqs"),
        ("--max_num_seqs=64", "server.engine.maxNumSeqs"),
        ("--max-num-s=64", "server.engine.maxNumSeqs"),
        ("--no-enable-prefix-caching", "server.engine.enablePrefixCaching"),
        ("--speculative-config.method=mtp", "server.engine.speculative"),
        ("--shutdown-timeout=5", "server.drainSeconds"),
        ("--api-key=sesame", "server.apiKeySecret"),
        ("--port=9000", "port 8000"),
        ("--model=other/model", "vllm-fleet:model"),
        ("--config=/tmp/flags.yaml", "would not be checked"),
        ("--enable-auto-tool-choice", "toolCallParser"),
        ({"HF_TOKEN": "hunter2"}, "looks like a secret"),
        ({"HOME": "x"}, "set by the server"),
        ({"VLLM_USE_DEEP_GEMM": "1"}, "a field of the engine"),
        ({"NOT-A-NAME": "x"}, "not a valid name"),
    ],
)
def test_an_extra_flag_or_variable_that_has_a_place_elsewhere_is_refused_with_that_place(
    extra: str | dict[str, str], reason: str
) -> None:
    assert reason in refusal(**{"extraArgs": (extra,)} if isinstance(extra, str) else {"extraEnv": extra})


@pytest.mark.parametrize(
    "argument",
    ["--long-prefill-token-threshold=4", "--enable-sleep-mode", "--compilation-config.mode=3", "--hf-overrides={}"],
)
def test_an_extra_flag_without_a_field_is_taken(argument: str) -> None:
    assert Engine.model_validate({"extraArgs": (argument,)}).extra_args == (argument,)


def test_every_variable_the_pod_sets_is_refused_as_an_extra_one() -> None:
    from workloads.server.pod import DRIVER_LIBRARIES
    from workloads.server.vllm_args import env, writable_environment

    ours = [*env(Engine(estimate_cudagraphs=True), ready_timeout_seconds=60, offline=True), *writable_environment("/c")]
    names = {*(entry["name"] for entry in ours), *DRIVER_LIBRARIES} - {"VLLM_ENGINE_READY_TIMEOUT_S"}  # only by default
    for name in sorted(names):
        assert "set by the server" in refusal(extraEnv={name: "x"})


def test_flags_are_described_by_the_long_names_of_the_ledger() -> None:
    engine = Engine(
        data_parallel_size=8,
        gpu_memory_utilization=0.92,
        enable_prefix_caching=False,
        optimization_level=3,
        speculative=Speculative(num_speculative_tokens=1),
        served_model_name="anything",
        seed=7,
        estimate_cudagraphs=True,
        extra_args=("--long_prefill_token_threshold=4", "--enable-sleep-mode"),
        extra_env={"NCCL_DEBUG": "WARN"},
    )
    assert effective_flags(engine) == {
        "data-parallel-size": 8,
        "tensor-parallel-size": 1,
        "gpu-memory-utilization": 0.92,
        "enable-prefix-caching": False,
        "optimization-level": 3,
        "speculative-config.method": "mtp",
        "speculative-config.num_speculative_tokens": 1,
        "long-prefill-token-threshold": "4",
        "enable-sleep-mode": True,
    }
    assert effective_environment(engine) == {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "1", "NCCL_DEBUG": "WARN"}


def test_settings_as_a_file_writes_them_are_the_same_flags_as_the_typed_ones() -> None:
    written = {
        "tensorParallelSize": 8,
        "maxNumSeqs": 512,
        "speculative": {"method": "mtp", "numSpeculativeTokens": 1},
        "estimateCudagraphs": True,
        "extraEnv": {"NCCL_DEBUG": "WARN"},
    }
    plain, typed = engine_settings.by_field(written), Engine.model_validate(written)
    assert engine_settings.effective_flags(plain) == effective_flags(typed)
    assert engine_settings.effective_environment(plain) == effective_environment(typed)
    assert engine_settings.effective_flags({}) == effective_flags(Engine())


def test_every_name_in_camel_case_leads_back_to_its_field() -> None:
    engine = Engine(speculative=Speculative(num_speculative_tokens=1))
    assert engine_settings.by_field(engine.model_dump(by_alias=True)) == engine.model_dump()


def test_every_field_is_a_flag_a_variable_or_one_of_three_others() -> None:
    others = {"version", "extra_args", "extra_env"}
    assert set(flag_fields()) | set(ENVIRONMENT) | others == set(Engine.model_fields)
    assert not set(flag_fields()) & set(ENVIRONMENT)


@given(
    st.dictionaries(
        st.sampled_from(sorted(field.alias or name for name, field in Engine.model_fields.items())),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.tuples(st.text()),
        max_size=4,
    )
)
def test_no_value_makes_anything_but_an_engine_or_a_validation_error(values: dict[str, Any]) -> None:
    try:
        engine = Engine.model_validate(values)
    except ValidationError:
        return
    assert effective_flags(engine)["data-parallel-size"] >= 1  # type: ignore[operator]
