"""What the page says where something was not collected: what is missing, and how it is had."""

from __future__ import annotations

from typing import Final

TEXTS: Final = {
    "not_asked": "There is no `run.json`, so the stack, its price, its workload and what was asked are unknown. "
    "A measurement that `fleet bench run` or the benchmark Job makes has one.",
    "no_cost": "What the stack costs was not written into `run.json`, so there is no price of a million tokens. "
    "The benchmark Job writes it when the price of the stack's machines is known.",
    "no_chunks": "The results hold no chunk times, so TPOT and ITL are missing. `vllm bench serve` writes them with `--save-detailed`.",
    "no_limits": "No limits of a good request were set, so there is no goodput. "
    "Set `benchmark.slo` in the stack file, or give them to `fleet bench merge`.",
    "no_timeline": "There is no course over time for this run.",
    "no_witness": "No client left a witness (`client-NNN.witness.json`): CPU, event-loop lag and the exact start are unknown, "
    "and so is whether the clients were the limit. Clients that `fleet bench run` or the benchmark Job starts write one.",
    "no_metrics": "The servers' /metrics were not sampled in this run, so nothing is known of the engines, their KV cache and their queue. "
    "The Job's first pod samples them every second and writes `server-metrics.jsonl.gz` into the run's folder.",
    "no_mfu": "FLOP/s and memory traffic were not collected; vLLM counts them with `--enable-mfu-metrics`.",
    "mfu": "FLOP/s and HBM traffic are vLLM's own count (`--enable-mfu-metrics`), rough for a hybrid model: "
    "it counts every layer as one of full attention.",
    "no_gpus": "Nothing was read of the GPUs: there is neither `gpu/dmon-POD.txt` nor `dcgm.json`. `fleet bench run` collects both from "
    "your machine: `nvidia-smi dmon` in every server's pod, and DCGM's series from managed Prometheus.",
    "no_gpus_here": "A self-test has no GPU.",
    "no_power": "Power was not read, or not over time; `nvidia-smi dmon` in the servers' pods gives it, which `fleet bench run` starts.",
}
