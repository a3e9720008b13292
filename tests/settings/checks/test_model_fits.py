"""What a stack file of another model or machine takes from its profile, and models that their GPUs do not hold."""

from __future__ import annotations

from typing import Any

import pytest

from settings.load import check
from settings.problems import SettingsError
from tests.support.rows import each_row
from tests.support.settings import make_settings

OTHER = {"id": "Qwen/Qwen3-32B", "revision": "a" * 40}


def settings_of(machine: str, model: dict[str, Any] | None = None, mode: str = "on-demand", **server: Any) -> Any:
    given = {"profile": "serve-chat", **server}
    return make_settings(machine=machine, capacity={"mode": mode}, model=model, server=given, weights={"sizeGib": 900})


def levels(settings: Any) -> dict[str, str]:
    return {problem.id: problem.severity for problem in check(settings)}


def test_a_profile_follows_the_gpus_of_the_pod() -> None:
    serving = settings_of("a3-highgpu-1g", mode="spot").serving
    assert (serving.engine.data_parallel_size, serving.engine.api_server_count) == (1, 1)
    assert serving.concurrency_per_replica == 150
    assert serving.engine.attention_backend is None
    assert serving.engine.kv_cache_dtype == "fp8_e4m3"
    assert serving.fitted == {"dataParallelSize": 1, "apiServerCount": 1, "attentionBackend": None}


@each_row(
    ("machine", "ranks", "engines"),
    [("g2-standard-12", 3, 1), ("a4-highgpu-8g", 3, 2), ("a4-highgpu-8g", 4, 2)],
)
def test_engines_follow_from_the_split_even_where_it_leaves_gpus(machine: str, ranks: int, engines: int) -> None:
    settings = settings_of(machine, mode="spot", engine={"tensorParallelSize": ranks})
    assert settings.serving.engine.data_parallel_size == engines
    assert "cpu-starves-engines" not in {problem.id for problem in check(settings)}


def test_what_is_written_stands() -> None:
    engine = {"dataParallelSize": 1, "tensorParallelSize": 8, "attentionBackend": "FLASHINFER"}
    serving = settings_of("a4-highgpu-8g", OTHER, "spot", engine=engine).serving
    assert (serving.engine.data_parallel_size, serving.engine.attention_backend) == (1, "FLASHINFER")
    assert serving.fitted == {"apiServerCount": 1, "kvCacheDtype": None}


def test_prefix_caching_is_no_value_that_follows_from_the_gpus() -> None:
    found = check(settings_of("a4-highgpu-8g", OTHER, "spot", engine={"dataParallelSize": 1, "tensorParallelSize": 8}))
    [told] = [one for one in found if one.id == "profile-on-other-gpus"]
    assert "kvCacheDtype" in told.allowed
    assert "enablePrefixCaching" not in told.allowed


@pytest.mark.parametrize(
    ("machine", "model", "ranks", "level"),
    [
        ("g2-standard-12", OTHER, 1, "error"),
        ("g2-standard-96", OTHER, 8, None),
        ("a2-ultragpu-1g", OTHER, 1, None),
        ("a3-megagpu-8g", {"id": "deepseek-ai/DeepSeek-V3.1", "revision": "a" * 40}, 8, "error"),
        ("g2-standard-12", {"id": "Qwen/Qwen3.5-4B"}, 1, None),
    ],
)
def test_a_model_that_its_gpus_do_not_hold_is_refused(
    machine: str, model: dict[str, Any], ranks: int, level: str | None
) -> None:
    engine = {"tensorParallelSize": ranks, "gpuMemoryUtilization": 0.9, "speculative": None}
    try:
        found = levels(settings_of(machine, model, engine=engine))
    except SettingsError as error:
        found = {problem.id: problem.severity for problem in error.problems}
    assert found.get("model-exceeds-gpus") == level


STATES = "sequences-above-states"
A100, H100 = "a2-highgpu-1g", "a3-highgpu-1g"


def about_states(machine: str, **server: Any) -> Any:
    found = check(settings_of(machine, mode="spot", **server))
    return next((problem for problem in found if problem.id == STATES), None)


@each_row(
    ("machine", "server", "severity"),
    [
        # Upper limits without memory for startup: 162 and 875. Estimates with it: 95, and 736 for 850 sequences.
        (A100, {"profile": "tuned"}, "error"),
        (A100, {"engine": {"maxNumSeqs": 163}}, "error"),
        (A100, {"engine": {"maxNumSeqs": 162}}, "warning"),
        (A100, {"engine": {"maxNumSeqs": 90}}, None),
        ("a2-highgpu-8g", {"profile": "serve-chat"}, "error"),
        (H100, {"profile": "record", "engine": {"version": "0.33.0"}}, "error"),
        (H100, {"profile": "record", "engine": {"version": "0.18.1"}}, "note"),
        (H100, {"engine": {"maxNumSeqs": 850}}, "warning"),
        (H100, {"engine": {"maxNumSeqs": 900, "extraArgs": ["--enforce-eager"]}}, "note"),
        (H100, {"engine": {"maxNumSeqs": 900, "optimizationLevel": 0}}, "note"),
        (H100, {"engine": {"maxNumSeqs": 900, "optimizationLevel": 1}}, "note"),
        (H100, {"engine": {"maxNumSeqs": 900, "optimizationLevel": 3}}, "error"),
        (H100, {"engine": {"maxNumSeqs": 900, "extraArgs": ["--compilation-config.cudagraph_mode=PIECEWISE"]}}, "note"),
        (
            H100,
            {"engine": {"maxNumSeqs": 900, "extraArgs": ["--compilation-config.cudagraph_mode=full_decode_only"]}},
            "error",
        ),
        (H100, {"profile": "tuned"}, None),
        # The lesson with the measured limit judges what is written; vLLM's default is judged here.
        ("a4-highgpu-8g", {"engine": {"maxNumSeqs": 900, "gpuMemoryUtilization": 0.4}}, None),
        ("a4-highgpu-8g", {"engine": {"maxNumSeqs": None, "gpuMemoryUtilization": 0.4}}, "error"),
    ],
)
def test_more_sequences_than_states_are_told_as_the_release_takes_them(
    machine: str, server: dict[str, Any], severity: str | None
) -> None:
    problem = about_states(machine, **server)
    assert (problem and problem.severity) == severity


def test_a_model_without_states_may_have_any_number_of_sequences() -> None:
    assert STATES not in levels(
        settings_of("a3-highgpu-8g", OTHER, engine={"tensorParallelSize": 8, "maxNumSeqs": 8000})
    )


def test_gpus_that_no_pod_may_have_are_told_once() -> None:
    found = levels(settings_of("g2-standard-12", gpus=3))
    assert "gpus-of-a-pod" in found
    assert "partial-node" not in found


HYBRID = {"id": "Qwen/Qwen3.5-9B"}
NO_DRAFTS = {"speculative": None}
EARLIER = {"version": "0.18.1"}
NGRAM = {"speculative": {"method": "ngram", "numSpeculativeTokens": 2}}


@each_row(
    ("profile", "model", "engine", "on"),
    [
        ("serve-chat", None, {}, False),
        ("serve-chat", HYBRID, {}, False),
        ("serve-chat", HYBRID, NO_DRAFTS, True),
        ("serve-chat", HYBRID, {**EARLIER, **NO_DRAFTS}, False),
        ("serve-chat", HYBRID, {**EARLIER, **NGRAM}, False),
        ("serve-chat", OTHER, {}, True),
        ("serve-batch", OTHER, {}, True),
        ("serve-chat", OTHER, {"enablePrefixCaching": False}, False),
        ("serve-code", OTHER, {}, True),
        ("record", OTHER, {}, True),
    ],
)
def test_prefix_caching_is_off_only_where_drafts_would_corrupt_states(
    profile: str, model: dict[str, Any] | None, engine: dict[str, Any], on: bool
) -> None:
    serving = make_settings(model=model, server={"profile": profile, "engine": engine}).serving
    assert (serving.engine.enable_prefix_caching, serving.caches_prefixes) == (on, on)
