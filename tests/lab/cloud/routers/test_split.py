"""Server pods with prefill apart from decode, without a cluster: the pod's own rank_servers.py and the real vllm-router, with simulated
servers where vLLM would be.
"""

from __future__ import annotations

import copy
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.clients.metrics_text import MetricsText, parse
from lab.cloud.routers.router_pod import RouterPod
from lab.control_plane.api import Manifest
from lab.simulators.model_server.timing import Request, ServerTiming
from lab.simulators.model_server.vllm_command import node_of, options_of
from lab.stage.traffic.client import Asking
from lab.stage.traffic.traffic import Load
from tests.lab.cloud.fake_world import until
from tests.lab.cloud.routers.play import PROGRAMS_WALL_SECONDS, Play, objects_of, playing
from tests.lab.cloud.routers.split import NEEDS_VLLM_ROUTER, PAIR, edited

LOAD = Load(
    request=Request(input_tokens=768, output_tokens=384),
    timing=ServerTiming(ttft_seconds=1.0, tpot_seconds=0.05),
    in_flight_per_server=1000,
)
PROMPT = tuple(range(1, 769))


@pytest.fixture(scope="module")
def objects() -> list[Manifest]:
    return objects_of(PAIR)


@pytest.fixture
def play(objects: list[Manifest], tmp_path: Path) -> Iterator[Play]:
    with playing(copy.deepcopy(objects), LOAD, tmp_path) as made:
        yield made


def decode(pod: RouterPod) -> MetricsText:
    with urllib.request.urlopen(f"{pod.status_url}/metrics", timeout=10) as answer:
        return parse(answer.read().decode())


def computed(pod: RouterPod) -> float | None:
    return decode(pod).total("vllm:prompt_tokens_by_source_total", role="decode", source="local_compute")


def answered(pod: RouterPod) -> list[bool]:
    with Asking("Qwen/Qwen3.5-27B-FP8") as asking:
        return [one.result().answered for one in asking.send([pod.url] * 2, tokens=2, prompt=PROMPT)]


@pytest.mark.slow
@NEEDS_VLLM_ROUTER
def test_prompts_move_and_a_dead_engine_ends_its_pod(play: Play) -> None:
    play.add_split("server-0")
    (pod,) = play.routers.server_pods()
    assert until(lambda: play.traffic.endpoints(), "its route") == [pod.url]
    assert answered(pod) == [True, True]
    assert computed(pod) == 2
    pod.kill_program("--port=8002")
    assert "rank 1 ended" in until(lambda: play.routers.deaths, "its end", PROGRAMS_WALL_SECONDS)[0]


@pytest.mark.slow
@NEEDS_VLLM_ROUTER
def test_engines_of_other_settings_refuse_each_other_and_decode_reads_the_prompts(play: Play) -> None:
    """As engines of two releases: vLLM compares a digest of them at the first transfer."""
    port = '    own.append(f"--port='
    edited(
        play.server_template["spec"]["containers"][0],
        port,
        f'    own.append(f"--block-size={{16 * (rank + 1)}}")\n{port}',
    )
    play.add_split("server-0")
    (pod,) = play.routers.server_pods()
    assert answered(pod) == [True, True]
    assert computed(pod) == 2 * len(PROMPT)
    assert decode(pod).total("vllm:nixl_num_failed_transfers_total", role="decode") == 2


def test_the_command_line_says_what_a_server_does() -> None:
    base = ["serve", "/model", "--served-model-name=m", "--port=8001"]
    transfer = (
        '--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"%s","kv_load_failure_policy":"recompute"}'
    )
    assert options_of(base)["--port"] == "8001"
    assert node_of(base, {}).transfer is None
    found = [
        node_of([*base, transfer % role, *more], env).transfer
        for role, more, env in (
            ("kv_producer", [], {}),
            ("kv_consumer", [], {}),
            ("kv_consumer", ["--block-size=64"], {}),
            ("kv_consumer", [], {"VLLM_SSM_CONV_STATE_LAYOUT": "DS"}),
        )
    ]
    assert [(one.role, one.recomputes) for one in found if one] == [("kv_producer", True)] + [("kv_consumer", True)] * 3
    agreements = [one.agreement for one in found if one]
    assert agreements[0] == agreements[1]
    assert len(set(agreements)) == 3
    with pytest.raises(ValueError, match="NixlPushConnector"):
        node_of([*base, (transfer % "kv_producer").replace("NixlConnector", "NixlPushConnector")], {})
