"""Engine settings as vLLM's options: which setting is which flag or environment variable, on plain data.

A setting is named by its field of `settings.engine.Engine`. Stack files and profiles write the same names in camelCase;
`by_field` turns them around.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from facts.engines import Scalar

LONG_NAMES: Mapping[str, str] = {
    "shutdown_timeout_seconds": "shutdown-timeout",
    "speculative": "speculative-config",
    "thinking": "default-chat-template-kwargs",
}
"""Fields whose flag is not the field's name with dashes."""

ENVIRONMENT: Mapping[str, str] = {
    "estimate_cudagraphs": "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
    "use_deep_gemm": "VLLM_USE_DEEP_GEMM",
    "engine_ready_timeout_seconds": "VLLM_ENGINE_READY_TIMEOUT_S",
}
"""Fields that are environment variables."""

_NOT_A_FLAG = frozenset({"version", "entrypoint", "extra_args", "extra_env", *ENVIRONMENT})
_NO_BEARING_ON_SPEED = frozenset(
    {"served_model_name", "shutdown_timeout_seconds", "engine_ready_timeout_seconds", "seed"}
)
_PARALLEL_SIZES: Mapping[str, int] = {"data_parallel_size": 1, "tensor_parallel_size": 1}
_CAPITAL = re.compile(r"[A-Z]")


def by_field(engine: Mapping[str, Any]) -> dict[str, Any]:
    """The settings by field name, from their camelCase names; those of a section within too."""
    return {
        _CAPITAL.sub(lambda capital: f"_{capital[0].lower()}", key): by_field(value)
        if isinstance(value, Mapping) and key != "extraEnv"
        else value
        for key, value in engine.items()
    }


def is_flag(field: str) -> bool:
    """Whether the field is a flag of its own."""
    return field not in _NOT_A_FLAG


def long_name(field: str) -> str:
    """The flag of a field, without its dashes."""
    return LONG_NAMES.get(field, field.replace("_", "-"))


def effective_flags(engine: Mapping[str, Any]) -> dict[str, Scalar]:
    """Flags that bear on speed, by long name without dashes, to compare an engine with another or with a published run.

    The names are the ledger's (facts/data/shapes.yaml): one key for each speculative setting. What vLLM would choose
    by itself is not filled in, except the two parallel sizes. What only names or times things is left out. The entry
    point is there when it is not `vllm serve`, which is what the image starts.
    """
    found: dict[str, Scalar] = {}
    if engine.get("entrypoint", "serve") != "serve":
        found["entrypoint"] = engine["entrypoint"]
    for field, value in {**_PARALLEL_SIZES, **engine}.items():
        if value is None or field in _NO_BEARING_ON_SPEED or not is_flag(field):
            continue
        if isinstance(value, Mapping):
            found |= {f"{long_name(field)}.{key}": inner for key, inner in value.items()}
        else:
            found[long_name(field)] = value
    for argument in engine.get("extra_args", ()):
        name, equals, text = argument.removeprefix("--").partition("=")
        found[name.replace("_", "-")] = text if equals else True
    return found


def effective_environment(engine: Mapping[str, Any]) -> dict[str, str]:
    """Environment variables that bear on speed, by name: the engine's typed ones and the extra ones."""
    typed = {
        variable: environment_text(value)
        for field, variable in ENVIRONMENT.items()
        if (value := engine.get(field)) is not None and field not in _NO_BEARING_ON_SPEED
    }
    return {**typed, **engine.get("extra_env", {})}


def environment_text(value: bool | int) -> str:
    """How a typed value is written into an environment variable: vLLM reads 0 and 1, not words."""
    return str(int(value))
