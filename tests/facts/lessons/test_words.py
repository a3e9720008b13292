"""One text, spelled for a stack file and for a rendered resource."""

from __future__ import annotations

import pytest
import yaml

from facts.lessons.lesson import Breach, Lesson
from facts.lessons.words import RESOURCES, Spelling
from settings.checks.declared_server import stack_file
from settings.sections.engine import ALSO_EXTRA, ENVIRONMENT, Engine, flag_fields, long_name
from tests.support.rows import each_row

SAMPLE: Lesson[None] = Lesson(
    name="sample",
    statement="A sample.",
    evidence="{max-model-len} is long",
    level_reason="it is a sample",
    fix="{max-model-len=4096}",
    level="advisory",
    severity="low",
    judge=lambda *_: iter(()),
)
ESTIMATE = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"


@each_row(
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


def test_every_engine_setting_has_its_key_unless_its_flag_has_other_uses() -> None:
    for field in set(flag_fields()) - ALSO_EXTRA:
        assert stack_file().path(long_name(field)) == f"server.engine.{Engine.model_fields[field].alias}"
    for field, variable in ENVIRONMENT.items():
        assert stack_file().path(variable) == f"server.engine.{Engine.model_fields[field].alias}"


def written(spelling: Spelling, breach: Breach) -> str:
    return spelling.finding(SAMPLE, breach, subject="here", found="there").write


def test_what_mends_it_can_be_pasted() -> None:
    changes = {
        "speculative-config": {"method": "mtp", "num_speculative_tokens": 1},
        "enable-prefix-caching": None,
        "gpu-memory-utilization": 0.92,
        "kv-cache-dtype": "fp8_e4m3",
    }
    breach = Breach(option="max-model-len", value=None, allowed="less", changes=changes)
    assert yaml.safe_load("{" + written(stack_file(), breach) + "}") == {
        "speculative": {"method": "mtp", "numSpeculativeTokens": 1},
        "enablePrefixCaching": None,
        "gpuMemoryUtilization": 0.92,
        "kvCacheDtype": "fp8_e4m3",
    }
    assert written(stack_file(), Breach(option="max-model-len", value=1, allowed="less")) == "maxModelLen: 4096"


@pytest.mark.parametrize(
    ("value", "said"), [(None, "not set"), (True, "set"), (False, "off"), (0.95, "0.95"), (8, "8")]
)
def test_what_is_wrong_has_the_value_found(value: object, said: str) -> None:
    breach = Breach(option="max-model-len", value=value, allowed="less")
    assert RESOURCES.found(breach) == f"--max-model-len is {said}"


def test_a_breach_is_the_same_finding_everywhere() -> None:
    breach = Breach(option="max-model-len", value=9, allowed="less", because="{max-num-seqs} is 1")
    ours, theirs = (one.finding(SAMPLE, breach, subject="x", found=9) for one in (stack_file(), RESOURCES))
    assert (ours.id, ours.allowed, ours.why) == ("sample", "less; maxNumSeqs is 1", "maxModelLen is long")
    assert (theirs.id, theirs.allowed, theirs.why) == ("sample", "less; --max-num-seqs is 1", "--max-model-len is long")
