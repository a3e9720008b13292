"""A stack with prefill apart from decode: what the burst shows of transfers, by hand-made counters and by a pod's own programs."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.clients.metrics_text import parse as scrape
from fleet.verify.checks_service import api_key
from fleet.verify.checks_traffic import transfers
from fleet.verify.facts import Burst, Facts, Reply, Server
from fleet.verify.verification import Asking, verify
from lab.simulators.model_server.timing import Request, ServerTiming
from lab.stage.traffic.traffic import Load
from settings.load import parse
from settings.stack import Settings
from settings.stack_file import read
from tests.fleet.verify.made_cluster import MadeCluster
from tests.fleet.verify.stacks import ROOT, check_of, differing, name_of, said_in, state_of
from tests.lab.cloud.routers.play import objects_of, playing
from tests.lab.cloud.routers.split import NEEDS_VLLM_ROUTER, PAIR
from tests.support.rows import each_row


@pytest.fixture(scope="module")
def pair() -> Settings:
    """Stack dev with a pod of one prefill and one decode engine."""
    return parse(
        "dev",
        dict(read(ROOT, "dev").config)
        | {
            f"vllm-fleet:{name}": json.dumps(value) if isinstance(value, dict) else value
            for name, value in PAIR.items()
        },
    )


def page(requests: int, computed: int, gb: float = 0.0, seconds: float = 0.0, failed: int = 0) -> str:
    counts = {
        'request_success_total{role="decode"}': requests,
        'request_success_total{role="prefill"}': 8,
        'prompt_tokens_by_source_total{source="local_compute",role="decode"}': computed,
        'prompt_tokens_by_source_total{source="local_compute",role="prefill"}': 512,
        'nixl_bytes_transferred_sum{role="decode"}': gb * 1e9,
        'nixl_xfer_time_seconds_sum{role="decode"}': seconds,
        'nixl_num_failed_transfers_total{role="decode"}': failed,
    }
    return "".join(f"vllm:{name} {value}\n" for name, value in counts.items())


def facts(after: str | None) -> Facts:
    pages = (None, None) if after is None else (scrape(page(0, 0)), scrape(after))
    burst = Burst(asked=8, answered=8, troubles=(), seconds=1.0, before=pages[0], after=pages[1])
    return Facts(endpoint="", door=None, pods=(Server(name="pod-a", health=Reply(status=200), burst=burst),))


@each_row(
    ("after", "state", "differs"),
    [
        (page(8, 8, 1.6, 0.1), "passed", []),
        (page(8, 512), "error", ["prompt tokens that decode computes, per request"]),  # the article's
        (page(8, 512, failed=8), "error", ["prompt tokens that decode computes, per request"]),
        (page(8, 8, 1.6, 3.2), "error", ["bytes by seconds"]),  # TCP
        (page(64, 127, 12.8, 0.8, failed=1), "error", ["failed transfers"]),
        (page(0, 0), "error", ["requests of decode engines"]),
        (None, "unknown", []),
    ],
)
def test_what_the_counters_of_a_burst_say(pair: Settings, after: str | None, state: str, differs: list[str]) -> None:
    found = transfers(facts(after), pair)
    assert state_of(found) == state
    assert [name_of(one) for one in differing(found)] == differs


def test_only_stacks_with_the_shape_are_asked(pair: Settings, dev: Settings) -> None:
    assert transfers(facts(page(8, 512)), dev) is None
    assert state_of(transfers(replace(facts(None), pods=()), pair)) == "unknown"


def test_pods_behind_their_own_router_are_asked_for_no_key() -> None:
    guarded = parse(
        "dev",
        dict(read(ROOT, "dev").config)
        | {
            "vllm-fleet:machine": "a3-highgpu-2g",
            "vllm-fleet:server": json.dumps({**PAIR["server"], "apiKeySecret": "vllm-api-key"}),
            "vllm-fleet:endpoint": json.dumps({"kind": "leastRequest"}),
        },
    )
    open_pod = Server(name="pod-a", health=Reply(status=200), models_without_key=Reply(status=200))
    assert state_of(api_key(Facts(endpoint="", door=None, pods=(open_pod,)), guarded)) == "unknown"
    door = replace(open_pod, name="endpoint")
    assert state_of(api_key(Facts(endpoint="", door=door, pods=(open_pod,)), guarded)) == "error"


@pytest.mark.slow
@NEEDS_VLLM_ROUTER
def test_a_pod_s_own_programs_are_as_declared(pair: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = Load(
        request=Request(input_tokens=768, output_tokens=64),
        timing=ServerTiming(ttft_seconds=1.0, tpot_seconds=0.05),
        in_flight_per_server=100,
    )
    with playing(copy.deepcopy(objects_of(PAIR)), load, tmp_path) as play:
        play.add_split("server-0")
        (pod,) = play.routers.server_pods()
        made = MadeCluster(tmp_path / "cluster", pair, [pod.status_url])
        made.write()
        monkeypatch.setenv("PATH", made.path)
        monkeypatch.setenv("FAKE_CLUSTER", str(made.folder))
        (tmp_path / "kubeconfig").write_text("")
        report = verify(pair, "vllm-fleet", Asking(kubeconfig=tmp_path / "kubeconfig", seconds=60))
    states: dict[str, Any] = {
        id_: state_of(check_of(report, id_)) for id_ in ("flags", "environment", "engines", "ranks", "transfers")
    }
    assert states == dict.fromkeys(states, "passed"), {id_: said_in(check_of(report, id_)) for id_ in states}
