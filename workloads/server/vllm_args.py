"""From typed engine settings to what the container runs: command, arguments, environment. `facts.engines` spells the flags.

Order is the order of the fields of `Engine`, the article's own listing first, so that a change of one value is a diff of one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facts.engines import render
from settings.sections.engine import ENVIRONMENT, Engine, Speculative, environment_text, flag_fields, long_name

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import EnvVarArgsDict

PORT = 8000
"""Where the server listens; the article's port, and vLLM's default."""

_COMMANDS = {
    "serve": ("vllm", "serve"),
    "module": ("python3", "-m", "vllm.entrypoints.openai.api_server"),
}
_USER = "vllm"


def command(engine: Engine) -> list[str]:
    """The container's `command`. Written out because the two entry points differ and an image may change its own."""
    return list(_COMMANDS[engine.entrypoint])


def args(engine: Engine, *, model_path: str, served_model_name: str, port: int = PORT) -> list[str]:
    """The container's `args`: the model, where to listen, the name clients use, then the engine's flags.

    `model_path` is a directory in the container or a Hugging Face repository. `served_model_name` gives way to the engine's
    own. `vllm serve` takes the model as its first argument; the module ignores one there and wants `--model`.
    """
    rendered = [model_path if engine.entrypoint == "serve" else f"--model={model_path}"]
    rendered += [f"--served-model-name={engine.served_model_name or served_model_name}", f"--port={port}"]
    return [*rendered, *render(_options(engine)), *engine.extra_args]


def env(engine: Engine, *, ready_timeout_seconds: int, offline: bool) -> list[EnvVarArgsDict]:
    """The container's `env` as far as vLLM's behaviour goes; see `writable_environment` for where it may write.

    `ready_timeout_seconds` is how long the API servers wait for the engines unless the engine says otherwise: the pod's own
    start-up budget. `offline` is for mounted weights: nothing asks the Hugging Face hub.
    """
    values: dict[str, bool | int] = {"engine_ready_timeout_seconds": ready_timeout_seconds}
    values |= {field: value for field in ENVIRONMENT if (value := getattr(engine, field)) is not None}
    # No telemetry: the network policies would hold it back anyway, and its thread would retry.
    variables = {ENVIRONMENT[field]: environment_text(values[field]) for field in ENVIRONMENT if field in values}
    variables |= {"VLLM_NO_USAGE_STATS": "1"}
    if offline:
        variables |= {"HF_HUB_OFFLINE": "1"}
    variables |= dict(sorted(engine.extra_env.items()))
    return [{"name": name, "value": value} for name, value in variables.items()]


def writable_environment(cache_root: str) -> list[EnvVarArgsDict]:
    """Variables that send every cache of vLLM and its libraries to one writable directory, and name the user.

    For a container without root and with a read-only file system; it still needs writable /tmp and /dev/shm. Which
    library writes what, and what fails without each line: docs/decisions/0006-non-root-vllm.md.
    """
    root = cache_root.rstrip("/")
    variables = {
        # torch asks for a user name while it is imported, and a uid without a passwd entry has none.
        "USER": _USER,
        "LOGNAME": _USER,
        # Without these a uid without a passwd entry has "/" or nothing for a home: FlashInfer stops at its import.
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
    """The engine's flags by long name, in the order of its fields. Sizes of 1 are left out, as in the article's own listing."""
    found: dict[str, Any] = {}
    for field in flag_fields():
        value = getattr(engine, field)
        implied = field in ("data_parallel_size", "tensor_parallel_size") and value == 1
        if value is None or implied or field == "served_model_name":
            continue
        if field == "tool_call_parser":
            found["enable-auto-tool-choice"] = True
        if field == "thinking":
            value = {"enable_thinking": value}
        found[long_name(field)] = value.model_dump() if isinstance(value, Speculative) else value
    return found
