"""The names that are looked for are those of vLLM 0.18.1 itself, where it is installed (`make vllm-check` installs it)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from fleet.verify import declared, questions
from tests.fleet.verify.stacks import settings_of
from tests.support.benchmark import VLLM_PYTHON, needs_vllm

PROGRAM = """
import json
from vllm.config.cache import CacheConfig
from vllm.entrypoints.openai.completion.protocol import CompletionLogProbs, CompletionRequest
from vllm.entrypoints.openai.engine.protocol import DeltaMessage, ModelCard, UsageInfo
cache = CacheConfig(cache_dtype="fp8_e4m3", gpu_memory_utilization=0.92, mamba_cache_mode="align", enable_prefix_caching=True)
print(json.dumps({
    "labels": cache.metrics_info(),
    "delta": list(DeltaMessage.model_fields),
    "model": list(ModelCard.model_fields),
    "completion": list(CompletionRequest.model_fields),
    "logprobs": list(CompletionLogProbs.model_fields),
    "usage": list(UsageInfo.model_fields),
}))
"""


@pytest.mark.slow
@needs_vllm
def test_labels_and_fields_are_vllms_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [VLLM_PYTHON, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    names = json.loads(done.stdout.splitlines()[-1])
    for stack in ("dev", "cud"):
        assert declared.cache_labels(settings_of(stack)).keys() <= names["labels"].keys()
    expected = declared.cache_labels(settings_of("dev"))
    for label in ("cache_dtype", "gpu_memory_utilization", "mamba_cache_mode", "enable_prefix_caching"):
        assert names["labels"][label] == expected[label]
    assert questions.needle("m", 100, None, "salt").keys() <= set(names["completion"])
    assert {"tokens", "top_logprobs"} <= set(names["logprobs"])
    assert {"content", "reasoning"} <= set(names["delta"])
    assert "max_model_len" in names["model"]
    assert {"completion_tokens"} <= set(names["usage"])
