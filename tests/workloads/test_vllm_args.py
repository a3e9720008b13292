"""The one place that spells vLLM's flags. tests/vllm/check_parser.py holds the same output against the real parser."""

from __future__ import annotations

import json
import re
from pathlib import Path

from settings.profiles import NAMES, profile
from settings.sections.engine import Engine, Speculative, Yarn
from tests.support.rows import each_row
from workloads.server.vllm_args import args, env, writable_environment

ROOT = Path(__file__).parents[2]
RECORD = profile("record").engine


def rendered(engine: Engine) -> list[str]:
    return args(engine, model_path="/models/qwen", served_model_name="Qwen/Qwen3.5-27B-FP8")


def test_a_switch_is_written_without_a_value_in_both_directions() -> None:
    assert "--no-enable-prefix-caching" in rendered(Engine(enable_prefix_caching=False))
    assert "--enable-prefix-caching" in rendered(Engine(enable_prefix_caching=True))
    assert not [flag for flag in rendered(Engine()) if "prefix-caching" in flag]


def test_json_is_compact_and_needs_no_shell() -> None:
    engine = Engine(speculative=Speculative(method="ngram", num_speculative_tokens=3), thinking=False)
    values = dict(flag.split("=", 1) for flag in rendered(engine) if "{" in flag)
    assert json.loads(values["--speculative-config"]) == {"method": "ngram", "num_speculative_tokens": 3}
    assert json.loads(values["--default-chat-template-kwargs"]) == {"enable_thinking": False}
    assert not re.search(r"\s|'", "".join(values.values()))


def test_yarn_keeps_the_models_other_rope_parameters() -> None:
    engine = Engine(max_model_len=393_216, yarn=Yarn(factor=1.5))
    (words,) = [flag for flag in rendered(engine) if flag.startswith("--hf-overrides=")]
    assert json.loads(words.partition("=")[2]) == {
        "text_config": {
            "max_position_embeddings": 393_216,
            "rope_parameters": {"rope_type": "yarn", "factor": 1.5, "original_max_position_embeddings": 262_144},
        }
    }


def test_the_engines_own_served_name_wins() -> None:
    assert "--served-model-name=house-model" in rendered(Engine(served_model_name="house-model"))


def test_extra_flags_come_last_and_as_given() -> None:
    assert rendered(Engine(extra_args=("--long-prefill-token-threshold=4",)))[-1] == "--long-prefill-token-threshold=4"


@each_row("name", NAMES)
def test_no_argument_of_a_profile_is_a_boolean_word_or_a_variable_to_expand(name: str) -> None:
    for flag in rendered(profile(name).engine):
        assert not re.search(r"=(true|false|none)$", flag, re.IGNORECASE)
        assert "$(" not in flag  # the kubelet would expand it


def test_the_ready_timeout_is_the_pods_start_up_budget_unless_the_engine_has_its_own() -> None:
    def timeout(engine: Engine) -> str:
        variables = {entry["name"]: entry["value"] for entry in env(engine, ready_timeout_seconds=1800, offline=True)}
        return variables["VLLM_ENGINE_READY_TIMEOUT_S"]

    assert timeout(RECORD) == "1800"
    assert timeout(RECORD.but({"extraEnv": {"VLLM_ENGINE_READY_TIMEOUT_S": "2400"}})) == "2400"


def test_the_environment_is_zeros_and_ones_offline_only_for_mounted_weights() -> None:
    engine = Engine(estimate_cudagraphs=True, use_deep_gemm=False, extra_env={"B": "2", "A": "1"})
    assert env(engine, ready_timeout_seconds=600, offline=False) == [
        {"name": "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "value": "1"},
        {"name": "VLLM_USE_DEEP_GEMM", "value": "0"},
        {"name": "VLLM_ENGINE_READY_TIMEOUT_S", "value": "600"},
        {"name": "VLLM_NO_USAGE_STATS", "value": "1"},
        {"name": "A", "value": "1"},
        {"name": "B", "value": "2"},
    ]
    assert {"name": "HF_HUB_OFFLINE", "value": "1"} in env(engine, ready_timeout_seconds=600, offline=True)


def test_every_cache_lies_below_the_writable_directory_and_the_user_has_a_name() -> None:
    variables = {entry["name"]: entry["value"] for entry in writable_environment("/var/cache/vllm/")}
    names = {variables.pop("USER"), variables.pop("LOGNAME")}
    assert names == {"vllm"}
    assert all(value.startswith("/var/cache/vllm/") and "//" not in value for value in variables.values())
    assert len(set(variables.values())) == len(variables)


def test_the_decision_record_explains_every_writable_variable() -> None:
    text = (ROOT / "docs" / "decisions" / "07-server.md").read_text()
    assert [entry["name"] for entry in writable_environment("/c") if f"`{entry['name']}`" not in text] == []
