"""What makes a stack production: an environment label, or the stack's name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

LABELS: Final = ("environment", "env", "app.kubernetes.io/environment", "vllm-fleet.dev/environment")
PRODUCTION: Final = frozenset({"production", "prod", "live"})


def by_labels(labels: Mapping[str, str]) -> str:
    """The label that says so, `environment: production`; empty without one."""
    return next((f"{key}: {labels[key]}" for key in LABELS if labels.get(key, "").lower() in PRODUCTION), "")


def by_name(stack: str) -> bool:
    """Whether a word of the stack's name says so."""
    return not PRODUCTION.isdisjoint(re.split(r"[^a-z]+", stack.lower()))
