"""Messages of the page for data that was not collected: what is missing, and how to collect it."""

from __future__ import annotations

from typing import Final

TEXTS: Final = {
    "not_asked": "`run.json` is missing, so stack, price, workload and load are unknown. `fleet bench run` and the benchmark Job write it.",
    "no_cost": "`run.json` has no price, so there is no price of a million tokens. It has one when the price of the stack's machines is "
    "known.",
    "no_chunks": "The results have no chunk times, so TPOT and ITL are missing. `vllm bench serve --save-detailed` writes them.",
    "no_limits": "No limits of a good request are set, so there is no goodput. Set `benchmark.slo` in the stack file, or pass `--slo` to "
    "`fleet bench merge`.",
    "no_timeline": "This run has no data over time.",
    "no_witness": "The witness files (`client-NNN.witness.json`) are missing: CPU, event-loop lag and exact start are unknown, and so is "
    "whether the clients were the limit. Clients of `fleet bench run` and the benchmark Job write them.",
    "no_metrics": "`server-metrics.jsonl.gz` is missing: engines, KV cache and queue are unknown. The Job's first pod samples the "
    "servers' /metrics every second.",
    "no_mfu": "FLOP/s and memory traffic were not collected; vLLM counts them with `--enable-mfu-metrics`.",
    "mfu": "FLOP/s and HBM traffic are vLLM's estimate (`--enable-mfu-metrics`), rough for a hybrid model: it counts every layer as full "
    "attention.",
    "no_gpus": "`dcgm.json` is missing. `fleet bench run` and `fleet bench fetch` write DCGM's series from managed Prometheus to it.",
    "no_power": "Power over time is missing: managed Prometheus had no series of it.",
}
