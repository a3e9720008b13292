"""The engine settings that follow from `server.shape`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from facts.engines import KEEP_ALIVE
from facts.lessons.serving_transfer import LAYOUT
from facts.model_config import LINEAR
from facts.models import ModelShape
from settings.sections.engine import Engine
from settings.sections.shape import Shape

if TYPE_CHECKING:
    pass

FIRST_RELEASE: Final = "0.33.0"
"""The release whose transfers were run (facts/data/disaggregation.yaml). Earlier ones with NIXL are right only in part."""
TRANSFER: Final = "--kv-transfer-config"
TRANSFER_HOST: Final = "VLLM_NIXL_SIDE_CHANNEL_HOST"
TRANSFER_PORT: Final = "VLLM_NIXL_SIDE_CHANNEL_PORT"
_CONNECTOR: Final = "NixlConnector"
"""Decode fetches a prompt's cache. NixlPushConnector started and moved nothing (docs/prefill-apart.md)."""
LEASE_SECONDS: Final = 60
"""How long prefill keeps a prompt that decode has not asked for. As measured (facts/data/disaggregation.yaml)."""
_KEEP_ALIVE_SECONDS: Final = 120
"""vllm-router keeps idle connections for 90 s (reqwest's default); vLLM closes them after 5, and a request on a closing one is lost."""
OWN_VARIABLES: Final = (LAYOUT, TRANSFER_HOST, TRANSFER_PORT, KEEP_ALIVE)


def answering_engines(engine: Engine, shape: Shape | None) -> int:
    """Engines of a pod that hold sequences until they end: all, with prefill apart those of decode."""
    return engine.data_parallel_size if shape is None else max(1, shape.decode_gpus // engine.tensor_parallel_size)


def shaped(engine: Engine, model: ModelShape | None) -> Engine:
    """The engine with its connector; rank_servers.py adds each server's role."""
    transfer = {
        "kv_connector": _CONNECTOR,
        # Decode reads a prompt itself whose transfer failed, instead of failing its request.
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"kv_lease_duration": LEASE_SECONDS},
    }
    layout = {LAYOUT: "DS"} if model is not None and LINEAR in model.parts else {}
    own = {**layout, TRANSFER_HOST: "127.0.0.1", KEEP_ALIVE: str(_KEEP_ALIVE_SECONDS)}
    option = f"{TRANSFER}={json.dumps(transfer, separators=(',', ':'))}"
    return engine.but({"extraArgs": (*engine.extra_args, option), "extraEnv": {**engine.extra_env, **own}})
