"""The benchmark with vLLM's own client, from the pod's start to the certificate, against a server that counts every token."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet.bench.certificate.certify import OPENINGS
from fleet.bench.folder import Witness
from fleet.bench.measurement import Check
from fleet.bench.merge.failures import kind_of
from fleet.bench.report.outline import Measured
from fleet.bench.report.outline import measured as measured_of
from tests.support.benchmark import Load, measure, needs_vllm
from tests.support.simulators.model_server.engine_server import EngineServer
from tests.support.simulators.model_server.in_thread import serving
from tests.support.simulators.model_server.node import Cache, Node, Pace

pytestmark = [pytest.mark.slow, needs_vllm]
STEP_SECONDS = 0.05
"""Assumed: a usual time between chunks, at which a client has little to do."""
SATURATING_STEP_SECONDS = 0.0003
"""64 answers at this pace are 213,000 chunks a second. Measured: a client that is late reads several at once and carries 127,000, one
by one 29,500 (docs/decisions/14-benchmark.md)."""
RATE_SHARE, RATE_SECONDS = 0.02, 0.5
"""The server is read once a second, so a window's begin and end are known to half of one; 2 % on top."""


def node(step_seconds: float) -> Node:
    cache = Cache(blocks=20_000, block_tokens=1_584, dtype="fp8_e4m3")
    pace = Pace(fixed_s=step_seconds)
    return Node(model="the/model", ranks=4, pace=pace, cache=cache, speculative_tokens=1, max_model_len=8192)


def measured(load: Load, server: EngineServer, room: Path) -> tuple[Measured, list[Witness]]:
    """The merged and judged measurement, and what each client saw. All requests and tokens are those that the server counted."""
    folder, code = measure(load, server.node, server.url, room)
    assert code == 0, (room / "pod.log").read_text()
    witnesses = {
        file: Witness.model_validate_json(file.read_bytes()) for file in sorted(folder.glob("*/*.witness.json"))
    }
    judged = measured_of(folder)
    runs = judged.measurement.runs
    requests = sum(run.completed for run in runs)
    outputs = sum(round(run.whole.output_tokens_per_s * run.whole.seconds) for run in runs)
    inputs = sum(round(run.whole.input_tokens_per_s * run.whole.seconds) for run in runs)
    refused: list[str] = []
    for file, seen in witnesses.items():
        # A client warms up with copies of its first request, which are in no result.
        result = json.loads(file.with_name(file.name.replace(".witness", "")).read_bytes())
        refused += filter(None, result["errors"])
        copies = min(result["max_concurrency"], 32)
        requests += copies
        outputs += copies * seen.asked_output_tokens[0]
        inputs += copies * seen.asked_input_tokens[0]
    assert sum(run.failed for run in runs) == len(refused)
    # A saturated client may misread answers (fleet/bench/merge/failures.py); it fails for no other reason.
    assert {kind_of(error) for error in refused} <= {"no json"}, refused
    assert requests + len(refused) == server.accepted
    if not refused:
        assert outputs == sum(engine.generation_tokens for engine in server.engines)
        assert inputs == sum(engine.prompt_tokens for engine in server.engines)
    return judged, list(witnesses.values())


def failed(judged: Measured) -> list[Check]:
    return [check for check in judged.certificate.checks if check.verdict == "failed"]


def test_client_and_server_count_the_same_and_nobody_is_blamed(tmp_path: Path) -> None:
    load = Load(input_tokens=256, output_tokens=96, connections=48, clients=2, requests_per_client=120)
    with serving(lambda: EngineServer(node(STEP_SECONDS))) as server:
        judged, witnesses = measured(load, server, tmp_path)
    assert {seen.program for seen in witnesses} == {"vllm bench serve 0.18.1"}
    (run,) = judged.measurement.runs
    assert (run.completed, len(run.clients)) == (240, 2)
    assert run.steady is not None
    assert run.server is not None
    known = sum(engine.generation_tokens for engine in run.server.engines) / run.steady.seconds
    allowed = RATE_SHARE + RATE_SECONDS / run.steady.seconds
    assert run.steady.output_tokens_per_s == pytest.approx(known, rel=allowed)
    # On a busy machine a client may be late, and the certificate says so.
    assert {check.blames for check in failed(judged)} <= {"client", "run"}
    assert judged.certificate.verdict == "not certified"  # it is too short


def test_a_saturated_client_is_caught(tmp_path: Path) -> None:
    load = Load(input_tokens=256, output_tokens=1_600, connections=64, clients=1, requests_per_client=1_000)
    with serving(lambda: EngineServer(node(SATURATING_STEP_SECONDS))) as server:
        judged, _ = measured(load, server, tmp_path)
    assert {check.id for check in failed(judged) if check.blames == "client"} & {"client-cpu", "event-loop"}
    assert not [check for check in failed(judged) if check.blames == "server"]
    assert OPENINGS["client"] in judged.certificate.reason
