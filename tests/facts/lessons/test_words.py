"""One text, spelled for a stack file and for a rendered resource."""

from __future__ import annotations

import pytest
import yaml

from facts.lessons.lesson import Broken, Told
from facts.lessons.words import RESOURCES
from settings.checks.declared_server import stack_file
from settings.sections.engine import ENVIRONMENT, Engine, flag_fields, long_name

TOLD = Told(
    name="sample",
    statement="A sample.",
    evidence="{max-model-len} is long",
    level_reason="it is a sample",
    fix="{max-model-len=4096}",
    level="advisory",
    severity="low",
)
ESTIMATE = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"


@pytest.mark.parametrize(
    ("template", "in_a_stack_file", "in_a_resource"),
    [
        ("{max-model-len}", "maxModelLen", "--max-model-len"),
        ("{max-model-len=4096}", "maxModelLen: 4096", "--max-model-len=4096"),
        ("{enable-prefix-caching=true}", "enablePrefixCaching: true", "--enable-prefix-caching"),
        ("{mamba-block-size=null}", "mambaBlockSize: null", "no --mamba-block-size"),
        (f"{{{ESTIMATE}=true}}", "estimateCudagraphs: true", f"{ESTIMATE}=1"),
        ("{speculative-config.num_speculative_tokens=1}", "speculative: {numSpeculativeTokens: 1}",
         "--speculative-config.num_speculative_tokens=1"),
        ("{image-tag=v0.18.1}", "server: {image: {tag: v0.18.1}}", "set the image's tag to v0.18.1"),
        ("{needed-context}", "server.needs.contextTokens", "vllm-fleet.dev/context-tokens"),
    ],
)  # fmt: skip
def test_options_are_spelled_for_the_reader(template: str, in_a_stack_file: str, in_a_resource: str) -> None:
    assert stack_file().text(template) == in_a_stack_file
    assert RESOURCES.text(template) == in_a_resource


def test_every_engine_setting_has_its_key() -> None:
    for field in flag_fields():
        assert stack_file().path(long_name(field)) == f"server.engine.{Engine.model_fields[field].alias}"
    for field, variable in ENVIRONMENT.items():
        assert stack_file().path(variable) == f"server.engine.{Engine.model_fields[field].alias}"


def test_what_mends_it_can_be_pasted() -> None:
    changes = {
        "speculative-config": {"method": "mtp", "num_speculative_tokens": 1},
        "enable-prefix-caching": None,
        "gpu-memory-utilization": 0.92,
        "kv-cache-dtype": "fp8_e4m3",
    }
    broken = Broken(option="max-model-len", value=None, allowed="less", changes=changes)
    assert yaml.safe_load("{" + stack_file().fix(TOLD, broken) + "}") == {
        "speculative": {"method": "mtp", "numSpeculativeTokens": 1},
        "enablePrefixCaching": None,
        "gpuMemoryUtilization": 0.92,
        "kvCacheDtype": "fp8_e4m3",
    }
    assert stack_file().fix(TOLD, Broken(option="max-model-len", value=1, allowed="less")) == "maxModelLen: 4096"


@pytest.mark.parametrize(
    ("value", "said"), [(None, "not set"), (True, "set"), (False, "off"), (0.95, "0.95"), (8, "8")]
)
def test_what_is_wrong_has_the_value_found(value: object, said: str) -> None:
    broken = Broken(option="max-model-len", value=value, allowed="less", because="{max-num-seqs} is 1")
    assert RESOURCES.what(broken) == f"--max-model-len is {said}: --max-num-seqs is 1"
