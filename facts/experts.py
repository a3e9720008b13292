"""FlashInfer's TRT-LLM kernels for experts on B200 and GB200: when vLLM runs them, and what to write instead.

They download headers into the image: lesson `experts-write-into-image`. Source: vLLM 0.18.1 and 0.33.0, model_executor/layers/:
fused_moe/oracle/unquantized.py (bf16), fused_moe/oracle/fp8.py, fused_moe/oracle/nvfp4.py, and for mxfp4 quantization/mxfp4.py of
0.18.1 and fused_moe/oracle/mxfp4.py of 0.33.0. Not covered: int4, whose choice depends on zero points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from facts.machines import Gpu
from facts.model_config import ModelShape
from facts.releases import Release

TRTLLM: Final = "flashinfer_trtllm"
WITHOUT_TRTLLM: Final[Mapping[str, str]] = {
    "bf16": "triton",
    "fp8": "triton",
    "nvfp4": "flashinfer_cutlass",
    "mxfp4": "triton",
}
"""`--moe-backend` without these kernels, by the experts' number format."""
_BLACKWELL: Final = 10
"""Compute capability, without its last digit, of B200 and GB200."""
_BY_BACKEND_ALONE: Final = (0, 33, 0)
"""First release that was read in which no variable chooses the kernels of experts."""
_FORMATS_IN_A_NAME: Final = {"MXFP4": "mxfp4", "FP4": "nvfp4", "FP8": "fp8"}
_REFUSED_BY: Final[Mapping[str, str]] = {"fp8": "VLLM_USE_FLASHINFER_MOE_FP8", "nvfp4": "VLLM_USE_FLASHINFER_MOE_FP4"}
_WANTED_BY: Final = "VLLM_USE_FLASHINFER_MOE_FP16"
_CUTLASS_BY: Final = "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8_CUTLASS"


def expert_format(shape: ModelShape | None, names: tuple[str, ...]) -> str:
    """Number format of a mixture's experts, by its shape, else by its name; empty if neither says, or these kernels cannot run them."""
    if shape is not None:
        runs = shape.weight_format in WITHOUT_TRTLLM and (shape.weight_format != "bf16" or shape.uses_silu)
        return shape.weight_format if shape.experts and runs else ""
    return next((form for part, form in _FORMATS_IN_A_NAME.items() if any(part in name.upper() for name in names)), "")


def has_trtllm(gpu: Gpu | None) -> bool:
    """Whether these kernels run on that GPU."""
    return gpu is not None and gpu.compute_capability // 10 == _BLACKWELL


def ignores_backend(release: Release, form: str) -> bool:
    """Whether the release does not read `--moe-backend` for such experts."""
    return form == "mxfp4" and release.number < _BY_BACKEND_ALONE


def chosen_by_vllm(release: Release, form: str, variable: Callable[[str], str | None]) -> bool:
    """Whether vLLM runs these kernels for experts of that format by itself, with the environment given.

    0.33.0 tries them first for every format, and has no variable against it.
    """
    if form not in WITHOUT_TRTLLM or release.number >= _BY_BACKEND_ALONE:
        return form in WITHOUT_TRTLLM
    if form == "bf16":
        return variable(_WANTED_BY) == "1" and variable("VLLM_FLASHINFER_MOE_BACKEND") in (None, "latency")
    if form == "mxfp4":
        return variable(_CUTLASS_BY) != "1"
    return variable(_REFUSED_BY[form]) != "0"
