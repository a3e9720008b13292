"""Validates `server.engine.extraArgs` and `extraEnv`: flags and variables that have no field in `Engine`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic_core import PydanticCustomError

from facts.engines import parse
from facts.releases import INSTEAD
from facts.secrets_in_text import names_secret

_FLAG = re.compile(r"^--[a-z][a-z0-9_-]*(\.[A-Za-z0-9_.-]+\+?)?(=.+)?$", re.DOTALL)
_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")

_OF_THE_SERVER = {
    "model": "the model comes from the profile or from vllm-fleet:model",
    "revision": "the revision comes from the profile or from vllm-fleet:model",
    "host": "the server listens on all addresses of its pod",
    "port": "the Service, the probes and the metrics expect port 8000",
    "uds": "the Service needs a TCP port",
    "api-key": "anyone who can read the pod can read a flag; set server.apiKeySecret",
    "hf-token": "anyone who can read the pod can read a flag; set weights.tokenSecret",
    "config": "flags in a file would not be checked",
    "headless": "a server without HTTP fails its probes",
    "shutdown-timeout": "server.drainSeconds sets it, with one API server; with several it has no effect",
    "enable-auto-tool-choice": "toolCallParser sets it",
    "download-dir": "the weights are mounted, not downloaded by the engine",
}
"""Flags that other parts of the stack set, and why they cannot be extra flags."""

_OF_THE_POD = frozenset(
    {
        "HOME",
        "USER",
        "LOGNAME",
        "TMPDIR",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "VLLM_CACHE_ROOT",
        "VLLM_CONFIG_ROOT",
        "VLLM_RPC_BASE_PATH",
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "TRITON_HOME",
        "FLASHINFER_WORKSPACE_BASE",
        "CUDA_CACHE_PATH",
        "CUTE_DSL_CACHE_DIR",
        "TVM_FFI_CACHE_DIR",
        "HF_HOME",
        "HF_HUB_OFFLINE",
        "VLLM_NO_USAGE_STATS",
        "PROMETHEUS_MULTIPROC_DIR",
        "CUDA_VISIBLE_DEVICES",
        "LD_LIBRARY_PATH",
        "LIBRARY_PATH",
        "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
        "VLLM_USE_DEEP_GEMM",
    }
)
"""Variables that the server or a field of `Engine` sets."""


def check_extra_args(arguments: tuple[str, ...], fields: Mapping[str, str]) -> tuple[str, ...]:
    """The flags. `fields`: the engine's settings by flag.

    Raises ValueError for a malformed flag, PydanticCustomError for one that the stack sets elsewhere.
    """
    for number, argument in enumerate(arguments, 1):
        if not _FLAG.fullmatch(argument):
            # Not quoted: the second half of `--api-key VALUE` is a secret of any form.
            raise ValueError(f"flag {number} must be one string: --name or --name=value")
        written = argument.removeprefix("--").partition("=")[0].partition(".")[0].replace("_", "-")
        (name,) = parse([argument]).options
        if owner := f"write server.engine.{fields[name]}" if name in fields else _OF_THE_SERVER.get(name):
            instead = f"; {INSTEAD[written]}" if written in INSTEAD else ""
            what = f"--{written} cannot be an extra flag: {owner}{instead}"
            raise PydanticCustomError(
                "set_elsewhere", "{what}", {"what": what, "near": f"extraArgs: without --{written}"}
            )
    return arguments


def check_extra_env(variables: dict[str, str]) -> dict[str, str]:
    """The variables. Raises ValueError for a malformed name, a secret, or a variable that is set elsewhere."""
    for name in variables:
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid name of an environment variable")
        if names_secret(name):
            raise ValueError(f"{name} looks like a secret and would be printed; use a Secret Manager secret")
        if name in _OF_THE_POD:
            raise ValueError(f"{name} is set by the server or by a field of the engine; remove it")
    return variables
