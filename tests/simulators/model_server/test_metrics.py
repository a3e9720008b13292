"""/metrics: as the benchmark's collector reads it, and series by series against vLLM 0.18.1's own."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.support.benchmark import VLLM_PYTHON, needs_vllm
from tests.support.simulators.clock import Clock
from tests.support.simulators.model_server.engine import Engine
from tests.support.simulators.model_server.metrics import render
from tests.support.simulators.model_server.node import Cache, Node, Pace
from tests.support.simulators.model_server.outbox import Outbox
from workloads.benchmark.pods.server_metrics import KEPT, parse

NODE = Node(
    model="m",
    ranks=2,
    pace=Pace(fixed_s=1.0),
    speculative_tokens=2,
    mfu_metrics=True,
    cache=Cache(blocks=9, dtype="fp8"),
)
VLLM = """
from types import SimpleNamespace
import prometheus_client
from vllm.config import DeviceConfig, VllmConfig
from vllm.config.cache import CacheConfig
from vllm.v1.metrics.loggers import PrometheusStatLogger
config = VllmConfig(cache_config=CacheConfig(), device_config=DeviceConfig(device="cpu"))
config.model_config = SimpleNamespace(
    served_model_name="m", max_model_len=4096, model="m", is_multimodal_model=False, runner_type="generate"
)
config.speculative_config = SimpleNamespace(num_speculative_tokens=2, method="mtp")
logger = PrometheusStatLogger(config, [0, 1])
logger.log_engine_initialized()
print(prometheus_client.generate_latest(prometheus_client.REGISTRY).decode())
"""
SERIES = re.compile(r"^(vllm:\w+)\{(.*)\} \S+$", re.MULTILINE)
TYPE = re.compile(r"^# TYPE (vllm:\w+) (\w+)$", re.MULTILINE)
# They need a running model; their names are those of v1/metrics/perf.py.
MFU = re.compile(r"vllm:estimated_\w+_per_gpu_(total|created)")


def page() -> str:
    return render([Engine(rank, NODE, Clock(1.0), Outbox()) for rank in range(2)], 1.0)


def test_the_collector_finds_every_name_that_it_keeps() -> None:
    reading = parse(page().encode())
    assert {name.partition("{")[0] for name in reading.values} == set(KEPT)
    assert all(set(of) == {"0", "1"} for of in reading.values.values())
    assert reading.info is not None
    assert (reading.info["num_gpu_blocks"], reading.info["cache_dtype"]) == ("9", "fp8")


def test_every_series_has_its_type_and_a_line_of_help() -> None:
    text = page()
    typed, told = dict(TYPE.findall(text)), set(re.findall(r"^# HELP (vllm:\w+) \S", text, re.MULTILINE))
    assert {name for name, _ in SERIES.findall(text)} == set(typed) == told
    assert all(kind == ("counter" if name.endswith("_total") else "gauge") for name, kind in typed.items())


@pytest.mark.slow
@needs_vllm
def test_every_series_is_one_of_vllms_with_its_type_and_labels() -> None:
    done = subprocess.run([str(VLLM_PYTHON), "-c", VLLM], capture_output=True, text=True, timeout=200, cwd="/")
    assert done.returncode == 0, done.stderr[-2000:]

    def series(text: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name, labels in SERIES.findall(text):
            # Order counts, values do not, except where they name a kind.
            shown = re.sub(r'(?<!finished_reason)(?<!source)(?<!position)="[^"]*"', "", labels)
            found.setdefault(name, set()).add(shown)
        return found

    ours, theirs = series(page()), series(done.stdout)
    types, their_types = dict(TYPE.findall(page())), dict(TYPE.findall(done.stdout))
    for name, labels in ours.items():
        if not MFU.fullmatch(name):
            assert labels == theirs[name], name
            assert types[name] == their_types[name], name
    assert sum(not MFU.fullmatch(name) for name in ours) >= 25
