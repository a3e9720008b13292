"""The engine settings that follow from `server.shape`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from facts.lessons.serving_transfer import LAYOUT
from facts.model_config import LINEAR
from facts.models import ModelShape
from settings.sections.engine import Engine
from settings.sections.shape import Shape

TRANSFER: Final = "--kv-transfer-config"
TRANSFER_HOST: Final = "VLLM_NIXL_SIDE_CHANNEL_HOST"
TRANSFER_PORT: Final = "VLLM_NIXL_SIDE_CHANNEL_PORT"
LEASE_SECONDS: Final = 60
"""How long prefill keeps a prompt that decode has not asked for. As measured (facts/data/disaggregation.yaml)."""
KEEP_ALIVE: Final = "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"
_KEEP_ALIVE_SECONDS: Final = 120
"""vllm-router keeps idle connections for 90 s (reqwest's default); vLLM closes them after 5, and a request on a closing one is lost."""
OWN_VARIABLES: Final = (LAYOUT, TRANSFER_HOST, TRANSFER_PORT, KEEP_ALIVE)


def reasons(shape: Shape | None) -> Mapping[str, str]:
    """Reasons for the options of `shaped` that need one."""
    why = "prefill apart from decode (server.shape), in one pod, on its loopback address"
    return {} if shape is None else {TRANSFER: why, TRANSFER_HOST: why}


def shaped(engine: Engine, shape: Shape, model: ModelShape | None) -> Engine:
    """The engine with its connector; rank_servers.py adds each server's role."""
    # `recompute`: decode reads a prompt itself whose transfer failed, instead of failing its request.
    transfer = {
        "kv_connector": shape.connector,
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"kv_lease_duration": LEASE_SECONDS},
    }
    is_hybrid = model is not None and LINEAR in model.parts
    variables = {
        **engine.extra_env,
        **({LAYOUT: "DS"} if is_hybrid else {}),
        TRANSFER_HOST: "127.0.0.1",
        KEEP_ALIVE: str(_KEEP_ALIVE_SECONDS),
    }
    option = f"{TRANSFER}={json.dumps(transfer, separators=(',', ':'))}"
    return engine.but({"extraArgs": (*engine.extra_args, option), "extraEnv": variables})
