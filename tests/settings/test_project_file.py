"""Pulumi.yaml sets values for the engine, and declares no key of a stack.

The engine fills in the defaults of declared keys, so the program would take an empty key for one that was left out.
Source: pulumi, sdk/go/common/workspace/config.go (mergeConfig).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from facts.names import stack_names
from settings.stack_file import read

ROOT = Path(__file__).resolve().parents[2]
DECLARED: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))["config"]


def test_the_engine_makes_no_kubernetes_provider_of_the_ambient_kubeconfig() -> None:
    """`value:` of a key of another namespace reaches every stack that does not set it itself."""
    assert DECLARED == {
        "pulumi:disable-default-providers": {"value": ["kubernetes"]},
        "pulumi:tags": {"value": {"workload": "llm-inference", "runs-on": "gke-autopilot"}},
    }
    for stack in stack_names(ROOT):
        assert json.loads(read(ROOT, stack).config["pulumi:disable-default-providers"]) == ["kubernetes"]
