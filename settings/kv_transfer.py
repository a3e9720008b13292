"""A server that hands its cache to others, or takes it: engine settings that follow from `server.prefillNodes`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from facts.engines import parse
from facts.lessons.serving_transfer import LAYOUT

Role = Literal["kv_producer", "kv_consumer"]
"""vLLM's names of the two sides: prefill produces a cache, decode consumes it."""
OPTION: Final = "kv-transfer-config"
HOST: Final = "VLLM_NIXL_SIDE_CHANNEL_HOST"
PORT: Final = "VLLM_NIXL_SIDE_CHANNEL_PORT"
KEEP_ALIVE: Final = "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"
_KEEP_ALIVE_SECONDS: Final = 120
"""Longer than routers keep an idle connection, 90 s; vLLM closes one after 5, and a request on it fails. Source: llm-d,
guides/pd-disaggregation."""
LEASE_SECONDS: Final = 60
"""How long prefill keeps a cache without a sign of life of the request. Source: llm-d, guides/pd-disaggregation; vLLM's default is 30."""
OWN: Final = (OPTION, LAYOUT, HOST, PORT)
"""Options and variables that this program sets."""


def with_role(engine: Mapping[str, Any], role: Role | None, *, is_hybrid: bool) -> dict[str, Any]:
    """A stack file's `server.engine` with the flags and variables of this role. A value of a wrong type stays, and is refused later.

    `is_hybrid`: whether the model has recurrent states, which are handed over in one order of their dimensions only.
    """
    given = dict(engine)
    arguments, variables = given.get("extraArgs", ()), given.get("extraEnv", {})
    if role is None or not isinstance(arguments, list | tuple) or not isinstance(variables, Mapping):
        return given
    own = {KEEP_ALIVE: str(_KEEP_ALIVE_SECONDS), **({LAYOUT: "DS"} if is_hybrid else {})}
    return {**given, "extraArgs": (*arguments, f"--{OPTION}={_config(role)}"), "extraEnv": {**own, **variables}}


def own_options(engine: Mapping[str, Any]) -> Sequence[str]:
    """Of a stack file's `server.engine`: the options and variables that `with_role` sets or that the pod's address decides."""
    arguments, variables = engine.get("extraArgs", ()), engine.get("extraEnv", {})
    options = parse([one for one in arguments if isinstance(one, str)]).options
    return [name for name in OWN if name in options or name in variables]


def _config(role: Role) -> str:
    told = {
        "kv_connector": "NixlConnector",
        "kv_role": role,
        # Decode reads the prompt itself where a transfer fails; vLLM's default answers 500.
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"kv_lease_duration": LEASE_SECONDS},
    }
    return json.dumps(told, separators=(",", ":"))
