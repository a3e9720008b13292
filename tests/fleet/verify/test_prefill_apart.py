"""A stack with prefill apart from decode: what the burst shows of transfers, by hand-made counters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.clients.metrics_text import parse as scrape
from fleet.verify.checks_service import api_key
from fleet.verify.checks_traffic import transfers
from fleet.verify.facts import Burst, Facts, Reply, Server
from settings.stack import Settings
from tests.fleet.verify.stacks import differing, name_of, state_of, with_sections
from tests.support.rows import each_row

IMAGE = f"europe-west4-docker.pkg.dev/project/images/vllm-router:0.1.17@sha256:{'0' * 64}"
PAIR: dict[str, Any] = {
    "machine": "a3-highgpu-2g",
    "server": {
        "profile": "tuned",
        "replicas": 2,
        "engine": {"dataParallelSize": 2},
        "shape": {"prefillGpus": 1, "decodeGpus": 1, "router": {"image": IMAGE}},
    },
    "endpoint": {"kind": "leastRequest"},
}


@pytest.fixture(scope="module")
def pair() -> Settings:
    """Stack dev with a pod of one prefill and one decode engine."""
    return with_sections("dev", **PAIR)


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
    burst = Burst(asked=8, answered=8, before=pages[0], after=pages[1])
    return Facts(endpoint="", door=None, pods=(Server(name="pod-a", health=Reply(status=200), burst=burst),))


@each_row(
    ("after", "state", "differs"),
    [
        (page(8, 8, 1.6, 0.1), "passed", []),
        (page(8, 512), "error", ["prompt tokens that decode computes, per request"]),  # the article's
        (page(8, 512, failed=8), "error", ["prompt tokens that decode computes, per request", "failed transfers"]),
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
    guarded = with_sections("dev", **PAIR | {"server": {**PAIR["server"], "apiKeySecret": "vllm-api-key"}})
    open_pod = Server(name="pod-a", health=Reply(status=200), models_without_key=Reply(status=200))
    assert state_of(api_key(Facts(endpoint="", door=None, pods=(open_pod,)), guarded)) == "unknown"
    door = replace(open_pod, name="endpoint")
    assert state_of(api_key(Facts(endpoint="", door=door, pods=(open_pod,)), guarded)) == "error"
