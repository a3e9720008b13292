"""A stack whose server pods have one prefill and one decode engine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

NEEDS_VLLM_ROUTER = pytest.mark.skipif(
    not os.environ.get("CI") and not Path(sys.executable).with_name("vllm-router").exists(),
    reason="vllm-router is not installed: make setup-rehearsal",
)


def edited(container: dict[str, Any], before: str, after: str) -> None:
    """Have the container's Python program run with another text in place of one."""
    words = container["command"]
    at = next(place for place, word in enumerate(words) if word.endswith(".py"))
    path = words[at]
    code = f"text = open({path!r}).read(); assert {before!r} in text; exec(text.replace({before!r}, {after!r}))"
    container["command"] = [*words[:at], "-c", code, *words[at + 1 :]]


IMAGE = f"europe-west4-docker.pkg.dev/project/images/vllm-router:0.1.17@sha256:{'0' * 64}"
PAIR: dict[str, Any] = {
    "machine": "a3-highgpu-2g",
    "server": {
        "profile": "tuned",
        "replicas": 2,
        "engine": {"dataParallelSize": 2},
        "shape": {"prefillGpus": 1, "decodeGpus": 1, "router": {"image": IMAGE}},
    },
    "endpoint": {"kind": "leastRequest"},
}
