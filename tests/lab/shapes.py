"""Stacks of every shape that the settings allow, recorded: what the program can write, not only what the five stacks do."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

from facts.names import stack_names
from fleet.preview.record.recorder import Recording, record
from fleet.preview.record.values import reveal
from tests.support.settings import make_config
from tests.support.stacks import recorded_stack

ROOT = Path(__file__).resolve().parents[2]
STACKS = tuple(stack_names(ROOT))
_SECRETS = {"hfToken": "notatoken", "apiKey": "notakey-notakey"}
_TRIAL: dict[str, Any] = {"labels": {"environment": "trial"}}
"""A reservation without it is judged as production, which accepts no release with advisories."""
SHAPES: dict[str, dict[str, Any]] = {
    "flex-start": {"capacity": {"mode": "flex-start", "runDurationSeconds": 86_400}},
    "calendar": {"capacity": {"mode": "calendar", "reservation": "window-1"}},
    "reservation": {
        "capacity": {"mode": "reservation", "name": "block-7", "project": "capacity-pool"},
        **_TRIAL,
    },
    "compute-class": {
        "capacity": {"mode": "compute-class", "reservation": {"name": "block-7", "project": "capacity-pool"}}
    },
    "short compute-class": {"capacity": {"mode": "compute-class", "flexStartSeconds": 7_200, "spot": False}},
    "two zones behind a gateway": {
        "zones": ["europe-west4-a", "europe-west4-b"],
        "gateway": {"enabled": True, "gatewayClass": "gke-l7-regional-external-managed"},
        "benchmark": {"enabled": True},
        **_SECRETS,
    },
    "secrets in Secret Manager": {
        "weights": {"tokenSecret": "hf-token"},
        "server": {"replicas": 2, "apiKeySecret": "vllm-key"},
        "benchmark": {"enabled": True},
    },
    "every kind at once": {
        "capacity": {"mode": "compute-class", "usdPerNodeHour": 50},
        "gateway": {"enabled": True},
        "weights": {"tokenSecret": "hf-token"},
        "server": {"replicas": 2, "apiKeySecret": "vllm-key"},
        "spending": {"limit": 5000, "then": "pause"},
    },
    "llm-d's picker with a standby": {
        "gateway": {"enabled": True, "epp": {"release": "llm-d-router-v0.10.0", "replicas": 2}},
        "server": {"replicas": 2, "rankPorts": True},
    },
    "weights from an image": {
        "weights": {"source": "image", "image": "projects/models/global/images/weights-2e1b213"},
        "server": {"replicas": 2},
    },
    "a canary of another revision": {
        "capacity": {"mode": "reservation", "name": "block-7", "nodes": 3},
        **_TRIAL,
        "weights": {"tokenSecret": "hf-token"},
        "server": {"replicas": 2, "apiKeySecret": "vllm-key"},
        "rollout": {"engine": {"seed": 1}, "model": {"revision": "0123456789abcdef" * 2 + "01234567"}},
        "benchmark": {"enabled": True},
    },
    "weights from the hub": {"weights": {"source": "huggingface"}, "server": {"replicas": 1}},
}


@cache
def recorded(name: str) -> Recording:
    """A shape, or a stack of this repository, with known outputs."""
    if name in STACKS:
        return recorded_stack(name)
    return record(
        ROOT,
        project="vllm-fleet",
        stack="test",
        config=make_config(**SHAPES[name]),
        secret_keys=("vllm-fleet:hfToken", "vllm-fleet:apiKey"),
        mode="known",
    )


def manifests(name: str) -> list[dict[str, Any]]:
    """Every Kubernetes object of it, as it would reach an API server."""
    return [
        copy.deepcopy(reveal(dict(resource.inputs)))
        for resource in recorded(name).resources
        if resource.custom and resource.type.startswith("kubernetes:") and "metadata" in resource.inputs
    ]


def distinct(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each object once."""
    return list({json.dumps(one, sort_keys=True): one for one in objects}.values())
