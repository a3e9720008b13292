"""What a preview says of a split of the engines, and when it warns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fleet.plan.modelled import modelled
from fleet.plan.prefill_apart import Span
from fleet.preview.report.prefill_apart import split_findings
from settings.stack import Settings
from tests.support.rows import each_row
from tests.support.settings import make_settings

IMAGE = f"europe-west4-docker.pkg.dev/project/images/vllm-router:0.1.17@sha256:{'0' * 64}"


def split(prefill: int, decode: int, **server: Any) -> Settings:
    shape = {"prefillGpus": prefill, "decodeGpus": decode, "router": {"image": IMAGE}}
    server = {"replicas": 1, "profile": "tuned", "shape": shape, **server}
    return make_settings(server=server, endpoint={"kind": "leastRequest"})


@each_row(("prefill", "warns"), [(1, True), (3, False), (4, True), (7, True)])
def test_a_side_that_would_be_idle_is_a_warning(prefill: int, warns: bool) -> None:
    one = split(prefill, 8 - prefill)
    found = list(split_findings(one, modelled(one)))
    assert [(finding.id, finding.severity) for finding in found] == [("shape-idles", "warning")] * warns
    if warns:
        assert "maxNumBatchedTokens" in str(found[0].write)
        assert "prefillGpus: 3, decodeGpus: 5" in str(found[0].write)


def test_a_split_without_gain_is_not_sent_to_another_without_gain() -> None:
    one = split(1, 7)
    found = modelled(one)
    assert found is not None
    assert found.splits is not None
    none = replace(found.splits.best, gain=Span(value=0.9, low=0.8, high=0.95))
    [told] = split_findings(one, replace(found, splits=replace(found.splits, best=none)))
    assert "remove shape" in str(told.write)
    assert "prefillGpus" not in f"{told.allowed} {told.write}"


def test_long_prompts_want_more_prefill() -> None:
    needs = {
        "requests": {"inputTokens": 5_000, "outputTokens": 250},
        "concurrencyPerReplica": 200,
        "contextTokens": 5_250,
    }
    engine = {"maxModelLen": 8_192}
    few, many = (split(prefill, 8 - prefill, needs=needs, engine=engine) for prefill in (2, 6))
    gains = [found.split.gain.value for one in (few, many) if (found := modelled(one)) and found.split]
    assert len(gains) == 2
    assert gains[0] < gains[1]


def test_the_estimate_is_that_of_the_split() -> None:
    apart, together = modelled(split(3, 5)), modelled(make_settings(server={"replicas": 1, "profile": "tuned"}))
    assert apart is not None
    assert together is not None
    assert apart.split is not None
    assert apart.total_tokens_per_s.value == apart.split.gain.value * apart.performance.total_tokens_per_s.value
    assert apart.tpot_ms.value != together.tpot_ms.value
    assert together.split is None


def test_what_it_says(golden: Callable[[str, str], None]) -> None:
    one = split(1, 7)
    found = modelled(one)
    assert found is not None
    told = [found.format(), *(finding.text() for finding in split_findings(one, found))]
    golden("preview/split.txt", "\n\n".join(told) + "\n")
