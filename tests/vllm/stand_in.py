"""A made-up node of eight B200 for vLLM's configuration code, and the public shape of Qwen3.5-27B-FP8 as a config.json.

Both exist so that the real parser and the real configuration classes of vLLM run on a machine without a GPU, a driver,
weights or a network. Nothing here computes anything: kernels, memory profiling and speed are out of reach.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

from facts import ledger

# Source: the article: 180 GB of HBM3e; NVIDIA's compute capability 10.0 for B200.
MEMORY_BYTES = 180 * 10**9
CAPABILITY = (10, 0)
GPUS = 8

# Source: public config.json of Qwen/Qwen3.5-27B-FP8: the shape is the catalogue's, with what vLLM reads beside it.
_SHAPE: dict[str, Any] = ledger.entry("models", "models", "Qwen/Qwen3.5-27B")["config"]
ARCHITECTURE: dict[str, Any] = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "model_type": "qwen3_5",
    "image_token_id": 248056,
    "video_token_id": 248057,
    "vision_start_token_id": 248053,
    "vision_end_token_id": 248054,
    "tie_word_embeddings": False,
    "text_config": {
        **{name: value for name, value in _SHAPE.items() if name != "vision_config"},
        "dtype": "bfloat16",
        "full_attention_interval": 4,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000_000,
            "partial_rotary_factor": 0.25,
            "mrope_section": [11, 11, 10],
            "mrope_interleaved": True,
        },
    },
    "vision_config": {
        **_SHAPE["vision_config"],
        "model_type": "qwen3_5",
        "num_heads": 16,
        "out_hidden_size": 5120,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "num_position_embeddings": 2304,
        "in_channels": 3,
    },
    "quantization_config": {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "weight_block_size": [128, 128],
    },
}


def write_model(folder: Path) -> Path:
    """Write the architecture into `folder` as config.json, which is all of a model that its configuration needs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(ARCHITECTURE, indent=1))
    return folder


def pretend_b200() -> None:
    """Make vLLM in this process believe in eight B200. To be called before anything else of vLLM is imported."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    # The compiled kernels need the driver's libcuda.so.1; the configuration only asks four questions of them.
    for kernels in ("_C", "_C_stable_libtorch", "_moe_C_stable_libtorch", "vllm_flash_attn._vllm_fa2_C"):
        sys.modules[f"vllm.{kernels}"] = types.ModuleType(kernels)

    import vllm._custom_ops
    import vllm.platforms
    import vllm.utils.torch_utils
    from vllm.platforms.cuda import NonNvmlCudaPlatform
    from vllm.platforms.interface import DeviceCapability

    class B200(NonNvmlCudaPlatform):  # type: ignore[misc, unused-ignore]
        @classmethod
        def get_device_capability(cls, *_: object, **__: object) -> DeviceCapability:
            return DeviceCapability(*CAPABILITY)

        @classmethod
        def get_device_name(cls, *_: object, **__: object) -> str:
            return "NVIDIA B200"

        @classmethod
        def get_device_total_memory(cls, *_: object, **__: object) -> int:
            return MEMORY_BYTES

        @classmethod
        def device_count(cls) -> int:
            return GPUS

        @classmethod
        def is_fully_connected(cls, *_: object, **__: object) -> bool:
            return True

    vllm.platforms._current_platform = B200()
    vllm.utils.torch_utils._cuda_device_count_stateless = lambda *_: GPUS
    for question in (
        "cutlass_scaled_mm_supports_fp8",
        "cutlass_scaled_mm_supports_block_fp8",
        "cutlass_group_gemm_supported",
        "cutlass_sparse_scaled_mm_supported",
    ):
        if hasattr(vllm._custom_ops, question):
            setattr(vllm._custom_ops, question, lambda *_: True)
    with contextlib.suppress(ImportError):  # 0.18.1 has no such configuration
        from vllm.config.reasoning import ReasoningConfig

        # It asks the model's tokenizer for the tokens of <think>; the stand-in model has none.
        ReasoningConfig.initialize_token_ids = lambda *_, **__: None
