"""/metrics: as the benchmark's collector reads it, and series by series against vLLM 0.18.1's own."""

from __future__ import annotations

import re
import subprocess

import pytest

from facts.engines import VERSIONS, find
from tests.support.benchmark import VLLM_PYTHON, needs_vllm
from tests.support.simulators.model_server.engine import Engine
from tests.support.simulators.model_server.metrics import render
from tests.support.simulators.model_server.node import Cache, Node, Pace
from tests.support.simulators.model_server.outbox import Outbox
from workloads.benchmark.pods.server_metrics import INFO, KEPT, parse

NODE = Node(model="m", ranks=2, pace=Pace(fixed_s=1.0), speculative_tokens=2, cache=Cache(blocks=9, dtype="fp8"))
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
# The simulated server has none of them: they need a running model.
MFU = re.compile(r"vllm:estimated_\w+_per_gpu_total")


def page() -> str:
    return render([Engine(rank, NODE, Outbox()) for rank in range(2)], 1.0)


def test_the_collector_finds_every_name_that_it_keeps_and_all_are_vllms() -> None:
    for version in VERSIONS:
        assert {*KEPT, INFO} <= find(version).series
    reading = parse(page().encode())
    assert {name.partition("{")[0] for name in reading.values} == {name for name in KEPT if not MFU.fullmatch(name)}
    assert all(set(of) == {"0", "1"} for of in reading.values.values())
    assert reading.info is not None
    assert (reading.info["num_gpu_blocks"], reading.info["cache_dtype"]) == ("9", "fp8")


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
        assert labels == theirs[name], name
        assert types[name] == their_types[name], name
    assert len(ours) >= 25
