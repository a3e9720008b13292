"""The container's command, arguments and environment from typed engine settings. `facts.engines` renders the flags.

The order is that of the fields of `Engine`, starting as in the article, so that a changed value is a one-line diff.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from facts.engines import render
from facts.names import HTTP_PORT
from settings.sections.engine import ENVIRONMENT, Engine, environment_text, flag_fields, long_name, option_value

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import EnvVarArgsDict

COMMAND = ("vllm", "serve")
"""The container's `command`. Explicit, because an image may change its own."""
_USER = "vllm"


def args(
    engine: Engine,
    *,
    model_path: str,
    served_model_name: str,
    adapter_paths: Mapping[str, str] | None = None,
    port: int = HTTP_PORT,
) -> list[str]:
    """The container's `args`: model, address, served name, the engine's flags, then the adapters.

    `model_path` is a directory in the container or a Hugging Face repository. The engine's served name overrides
    `served_model_name`.
    `adapter_paths` are the directories of LoRA adapters by their names in requests; the engine's options make room for them.
    """
    rendered = [model_path, f"--served-model-name={engine.served_model_name or served_model_name}", f"--port={port}"]
    rendered += [*render(_options(engine)), *engine.extra_args]
    if adapter_paths:
        rendered += ["--lora-modules", *(f"{name}={path}" for name, path in adapter_paths.items())]
    return rendered


def env(engine: Engine, *, ready_timeout_seconds: int, offline: bool) -> list[EnvVarArgsDict]:
    """The container's `env` for vLLM's behavior; see `writable_environment` for writable paths.

    `ready_timeout_seconds` is how long the API servers wait for the engines: the pod's startup budget, because vLLM's default of 600 s is
    as long as the article's whole startup. `offline` is for mounted weights: the Hugging Face hub is not used.
    """
    values = {variable: getattr(engine, field) for field, variable in ENVIRONMENT.items()}
    variables = {name: environment_text(value) for name, value in values.items() if value is not None}
    # No telemetry: network policies block it, and its thread would retry.
    variables |= {"VLLM_ENGINE_READY_TIMEOUT_S": str(ready_timeout_seconds), "VLLM_NO_USAGE_STATS": "1"}
    if offline:
        variables |= {"HF_HUB_OFFLINE": "1"}
    variables |= dict(sorted(engine.extra_env.items()))
    return [{"name": name, "value": value} for name, value in variables.items()]


def writable_environment(cache_root: str) -> list[EnvVarArgsDict]:
    """Variables that set one writable directory for all caches of vLLM and its libraries, and the user name.

    For a container without root and with a read-only file system, which still needs writable /tmp and /dev/shm.
    docs/decisions/07-server.md lists what each library writes and what fails without each variable.
    """
    root = cache_root.rstrip("/")
    variables = {
        # torch reads the user name on import; a uid without a passwd entry has none.
        "USER": _USER,
        "LOGNAME": _USER,
        # Otherwise a uid without a passwd entry has no home directory, and FlashInfer fails on import.
        "HOME": f"{root}/home",
        "XDG_CACHE_HOME": f"{root}/xdg",
        "XDG_CONFIG_HOME": f"{root}/config",
        "VLLM_CACHE_ROOT": f"{root}/vllm",
        "VLLM_CONFIG_ROOT": f"{root}/config/vllm",
        "TORCHINDUCTOR_CACHE_DIR": f"{root}/inductor",
        "TRITON_CACHE_DIR": f"{root}/triton",
        "FLASHINFER_WORKSPACE_BASE": f"{root}/flashinfer",
        "CUTE_DSL_CACHE_DIR": f"{root}/cute-dsl",
        "TVM_FFI_CACHE_DIR": f"{root}/tvm-ffi",
        "CUDA_CACHE_PATH": f"{root}/cuda",
        "HF_HOME": f"{root}/huggingface",
    }
    return [{"name": name, "value": value} for name, value in variables.items()]


def _options(engine: Engine) -> dict[str, Any]:
    """The engine's flags by long name, in the order of its fields. Sizes of 1 are omitted, as in the article."""
    flags: dict[str, Any] = {}
    for field in flag_fields():
        value = getattr(engine, field)
        implied = field in ("data_parallel_size", "tensor_parallel_size") and value == 1
        if value is None or implied or field == "served_model_name":
            continue
        if field == "tool_call_parser":
            flags["enable-auto-tool-choice"] = True
        flags[long_name(field)] = option_value(field, value)
    return flags
