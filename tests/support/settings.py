"""Settings for tests, built the way a stack file builds them."""

from __future__ import annotations

import json
from typing import Any

from settings.load import parse
from settings.stack import Settings

BASE: dict[str, Any] = {
    "zones": ["europe-west4-b"],
    "capacity": {"mode": "spot"},
    "server": {"replicas": 12},
}


def make_config(*, project: str = "fleet-tests", region: str = "europe-west4", **sections: Any) -> dict[str, str]:
    """A stack's configuration as the engine passes it; sections given replace the base's."""
    merged = {**BASE, **sections}
    config = {"gcp:project": project, "gcp:region": region}
    for key, value in merged.items():
        if value is not None:
            config[f"vllm-fleet:{key}"] = value if isinstance(value, str) else json.dumps(value)
    return config


def make_settings(stack: str = "test", **sections: Any) -> Settings:
    """Typed settings of a small valid stack, with the sections given."""
    return parse(stack, make_config(**sections))
