"""Programs that run inside the pods: standard library only, passed to the image's own Python as text."""

from __future__ import annotations

from pathlib import Path

BENCHMARK = (
    "__init__",
    "barrier",
    "bench_client",
    "client_processes",
    "collect_metrics",
    "fetch_dataset",
    "fetch_tokenizer",
    "launch_clients",
    "play_run",
    "progress",
    "prompt_text",
    "results_bucket",
    "run_plan",
    "server_metrics",
    "trace_slices",
    "wait_for_server",
)
"""What a benchmark's pod needs of these, `pod_scripts` as a package."""


def source(name: str) -> str:
    """The text of one of these programs, e.g. `source("with_api_key")`."""
    return (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
