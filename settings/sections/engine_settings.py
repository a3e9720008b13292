"""Maps engine settings to vLLM's flags and environment variables, on plain data.

A setting has the name of its field in `settings.sections.engine.Engine`. Stack files and profiles use camelCase; `by_field` converts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from facts.engines import Scalar

LONG_NAMES: Mapping[str, str] = {
    "speculative": "speculative-config",
    "thinking": "default-chat-template-kwargs",
    "yarn": "hf-overrides",
}
"""Flags of the fields whose flag differs from the field's name."""

ENVIRONMENT: Mapping[str, str] = {
    "estimate_cudagraphs": "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
    "use_deep_gemm": "VLLM_USE_DEEP_GEMM",
}
"""Fields that are environment variables."""

ALSO_EXTRA = frozenset({"yarn"})
"""Fields that are one use of their flag: it is an extra flag for the others."""

_NOT_A_FLAG = frozenset({"version", "extra_args", "extra_env", *ENVIRONMENT})
_NO_BEARING_ON_SPEED = frozenset({"served_model_name", "seed"})
_PARALLEL_SIZES: Mapping[str, int] = {"data_parallel_size": 1, "tensor_parallel_size": 1}
_CAPITAL = re.compile(r"[A-Z]")


def by_field(engine: Mapping[str, Any]) -> dict[str, Any]:
    """Convert camelCase names to field names, also in nested sections."""
    return {
        _CAPITAL.sub(lambda capital: f"_{capital[0].lower()}", key): by_field(value)
        if isinstance(value, Mapping) and key != "extraEnv"
        else value
        for key, value in engine.items()
    }


def is_flag(field: str) -> bool:
    """Whether the field is a flag."""
    return field not in _NOT_A_FLAG


def long_name(field: str) -> str:
    """The flag of a field, without its dashes."""
    return LONG_NAMES.get(field, field.replace("_", "-"))


def effective_flags(engine: Mapping[str, Any]) -> dict[str, Scalar]:
    """Flags that affect performance, by long name without dashes, to compare an engine with another or with a published run.

    Names are the ledger's (facts/data/shapes.yaml), with one key for each speculative setting. vLLM's defaults are not filled in,
    except the two parallel sizes.
    """
    flags: dict[str, Scalar] = {}
    for field, value in {**_PARALLEL_SIZES, **engine}.items():
        if value is None or field in _NO_BEARING_ON_SPEED or not is_flag(field):
            continue
        if isinstance(value, Mapping):
            flags |= {f"{long_name(field)}.{key}": inner for key, inner in value.items()}
        else:
            flags[long_name(field)] = value
    for argument in engine.get("extra_args", ()):
        name, equals, text = argument.removeprefix("--").partition("=")
        flags[name.replace("_", "-")] = text if equals else True
    return flags


def effective_environment(engine: Mapping[str, Any]) -> dict[str, str]:
    """Environment variables that affect performance, by name: typed and extra ones."""
    typed = {
        variable: environment_text(value)
        for field, variable in ENVIRONMENT.items()
        if (value := engine.get(field)) is not None
    }
    return {**typed, **engine.get("extra_env", {})}


def environment_text(value: bool | int) -> str:
    """Format a value for an environment variable: vLLM reads 0 and 1, not words."""
    return str(int(value))
