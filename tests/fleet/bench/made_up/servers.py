"""What made-up servers say of themselves and of their GPUs. For tests/fleet/bench/made_up/results.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson


def engine_values(
    *, generated: float, prompts: float, done: float, running: float, waiting: float, preempted: float
) -> dict[str, float]:
    """What one engine's /metrics hold after that many tokens and requests; with requests waiting, its cache is full."""
    drafts = generated / 1.9
    return {
        "vllm:generation_tokens_total": generated,
        "vllm:prompt_tokens_total": prompts,
        "vllm:num_requests_running": running,
        "vllm:num_requests_waiting": waiting,
        "vllm:kv_cache_usage_perc": 0.996 if waiting else min(0.95, running * 0.004),
        "vllm:num_preemptions_total": preempted,
        "vllm:request_success_total{finished_reason=length}": done,
        "vllm:request_success_total{finished_reason=abort}": 0.0,
        "vllm:prefix_cache_queries_total": prompts,
        "vllm:prefix_cache_hits_total": prompts * 0.01,
        "vllm:spec_decode_num_drafts_total": drafts,
        "vllm:spec_decode_num_draft_tokens_total": drafts,
        "vllm:spec_decode_num_accepted_tokens_total": drafts * 0.9,
        "vllm:estimated_flops_per_gpu_total": generated * 54e9 + prompts * 54e9,
        "vllm:estimated_read_bytes_per_gpu_total": generated * 3e8,
    }


def write_gpu(folder: Path, servers: int, runs: Sequence[tuple[float, float]]) -> None:
    """Write DCGM's series, from before the first run to after the last."""
    moments = np.arange(int(runs[0][0]) - 10, int(runs[-1][1]) + 11)
    busy = np.zeros(len(moments), dtype=bool)
    for began, ended in runs:
        busy |= (moments >= began + 1) & (moments <= ended)
    series = [
        {
            "metric": metric,
            "labels": {"gpu": str(gpu), "Hostname": f"vllm-{server}", "UUID": f"GPU-{server}-{gpu}"},
            "samples": [[at, value if busy[at - int(moments[0])] else idle] for at in moments[::15].tolist()],
        }
        for server in range(servers)
        for gpu in range(8)
        for metric, value, idle in (
            ("DCGM_FI_DEV_POWER_USAGE", 721.0, 181.0),
            ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.41, 0.0),
            ("DCGM_FI_PROF_DRAM_ACTIVE", 0.62, 0.0),
            ("DCGM_FI_PROF_SM_ACTIVE", 0.93, 0.0),
        )
    ]
    (folder / "dcgm.json").write_bytes(orjson.dumps({"schema": 1, "series": series, "problem": None}))
