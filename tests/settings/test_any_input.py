"""Whatever a stack file says, the answer is settings or a SettingsError: never another exception."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from settings.load import KEYS, check, parse
from settings.problems import SettingsError
from tests.support.settings import make_config

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12)
WORDS = st.sampled_from(
    ["mode", "spot", "name", "cidr", "nodeCidr", "enabled", "replicas", "engine", "profile", "stack", "create", "epp"]
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
QUICK = settings(suppress_health_check=[HealthCheck.too_slow])


def judge(config: dict[str, str]) -> None:
    try:
        parsed = parse("x", config)
    except SettingsError as error:
        assert error.problems
        for problem in error.problems:
            assert problem.subject, problem
            assert problem.allowed, problem
            assert problem.why, problem
            assert problem.write, problem
    else:
        for problem in check(parsed):
            assert problem.text()


@QUICK
@given(st.dictionaries(st.sampled_from(sorted(KEYS)), ANYTHING, max_size=3))
def test_any_value_under_a_known_key(sections: dict[str, Any]) -> None:
    judge({**make_config(), **{f"vllm-fleet:{key}": json.dumps(value) for key, value in sections.items()}})


@QUICK
@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=4))
def test_any_configuration_at_all(config: dict[str, str]) -> None:
    judge(config)


INTERESTING: dict[str, st.SearchStrategy[Any]] = {
    "maxModelLen": st.integers(0, 300_000),
    "maxNumSeqs": st.integers(0, 70_000),
    "maxNumBatchedTokens": st.integers(1, 300_000),
    "gpuMemoryUtilization": st.floats(0, 1.2),
    "kvCacheDtype": st.sampled_from(["auto", "bfloat16", "fp8", "fp8_e4m3", "fp4"]),
    "speculative": st.none() | st.fixed_dictionaries({"numSpeculativeTokens": st.integers(0, 20)}),
    "dataParallelSize": st.integers(0, 9),
    "tensorParallelSize": st.integers(0, 9),
    "enablePrefixCaching": st.none() | st.booleans(),
    "mambaBlockSize": st.none() | st.integers(0, 64),
    "mambaSsmCacheDtype": st.none() | st.sampled_from(["auto", "float16", "float32"]),
}


@QUICK
@given(st.fixed_dictionaries({}, optional=INTERESTING), st.integers(0, 1000))
def test_any_engine(overrides: dict[str, Any], replicas: int) -> None:
    judge(make_config(server={"replicas": replicas, "engine": overrides}))


BENCHMARKS: dict[str, st.SearchStrategy[Any]] = {
    "runOnUpdate": st.booleans(),
    "workload": st.sampled_from(["article", "vllm-1024-512", "shared-prefix-512", "sharegpt", "trace", "chat"]),
    "dataset": st.none()
    | st.fixed_dictionaries(
        {
            "url": st.sampled_from(["https://h/p", "gs://bucket/object", "gs://b", "http://h/p", "https://["])
            | st.text(max_size=12),
            "sha256": st.just("0" * 64) | st.text("0123456789abcdefg", max_size=66),
        }
    ),
    "concurrency": st.none() | st.lists(st.integers(-1, 200_000), max_size=4),
    "repeats": st.integers(0, 22),
    "connectionsPerClient": st.integers(0, 10_001),
    "promptsPerClient": st.integers(99, 1_000_001),
    "machineType": st.sampled_from(["c4-standard-16", "c4-standard-48", "n2-standard-8"]),
    "slo": st.none()
    | st.dictionaries(st.sampled_from(["ttftMs", "tpotMs", "e2eMs", "e2e"]), st.floats(-1, 1e6), max_size=3),
}


@QUICK
@given(
    st.fixed_dictionaries({"enabled": st.booleans()}, optional=BENCHMARKS),
    st.fixed_dictionaries({}, optional=INTERESTING),
    st.integers(0, 1000) | st.just("external"),
)
def test_any_benchmark(benchmark: dict[str, Any], overrides: dict[str, Any], replicas: int | str) -> None:
    judge(make_config(server={"replicas": replicas, "engine": overrides}, benchmark=benchmark))
