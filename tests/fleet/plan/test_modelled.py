from __future__ import annotations

from typing import Any

import pytest

from facts import ledger
from facts.figures import match
from fleet.plan.modelled import modelled
from settings.derived.figures import serving_shape
from tests.support.rows import each_row
from tests.support.settings import make_settings


def test_a_stack_without_a_published_figure_gets_the_models_interval_and_its_basis() -> None:
    found = modelled(make_settings(server={"replicas": 6}))
    assert found is not None
    assert found.requests.name == "article"
    assert found.in_flight == 12_000
    # Six nodes lie between the published four and eight: nearly six times one node's rate.
    assert 5.7 * 95_317 < found.total_tokens_per_s.value < 6.1 * 95_317
    assert found.output_tokens_per_s.value == pytest.approx(found.total_tokens_per_s.value / 3)
    assert (found.performance.basis, found.performance.reasons) == ("published", ())
    assert found.performance.label in found.format()


def test_what_was_never_measured_says_in_what() -> None:
    found = modelled(make_settings(server={"replicas": 2, "profile": "serve-chat"}))
    assert found is not None
    total = found.total_tokens_per_s
    assert total.low < total.value < total.high
    assert any("max-model-len" in reason for reason in found.performance.reasons)


@each_row(
    ("epp", "assumes"),
    [({"release": "llm-d-router-v0.10.0"}, True), ({}, False)],
)
def test_an_estimate_with_a_picker_of_which_nothing_is_published_says_what_it_assumes(
    epp: dict[str, Any], assumes: bool
) -> None:
    found = modelled(make_settings(server={"replicas": 6}, gateway={"enabled": True, "epp": epp}))
    assert found is not None
    assert (found.assumed is not None) is assumes


def test_a_paused_stack_has_no_estimate() -> None:
    assert modelled(make_settings(server={"replicas": 0})) is None


def test_with_a_shape_the_estimate_is_of_the_engines_together_and_the_ratio_and_what_was_measured_are_said() -> None:
    image = f"europe-west4-docker.pkg.dev/project/images/vllm-router:0.1.17@sha256:{'0' * 64}"
    shape = {"prefillGpus": 3, "decodeGpus": 5, "router": {"image": image}}
    tuned = {"replicas": 1, "profile": "tuned"}
    plain = modelled(make_settings(server=tuned))
    apart = modelled(make_settings(server={**tuned, "shape": shape}, endpoint={"kind": "leastRequest"}))
    assert plain is not None
    assert apart is not None
    assert apart.total_tokens_per_s.value == plain.total_tokens_per_s.value
    runs = ledger.section("disaggregation", "rendered")["runs"].values()
    changed = [f"{one['times']}" for one in runs]
    # By the interval, with prompts 2 and 20 times as long as answers, and with MTP.
    assert all(
        said in apart.format()
        for said in ("3 : 5", "two H200", *changed, "prefillScheduleInterval 16", "1.45", "1.30", "0.91")
    )
    assert plain.apart == ""


def test_the_articles_large_model_is_matched_with_its_row() -> None:
    model = {"id": "nvidia/Qwen3.5-397B-A17B-NVFP4", "revision": "a" * 40, "sizeGb": 240}
    settings = make_settings(server={"replicas": 1, "profile": "397b-nvfp4"}, model=model)
    row = match(serving_shape(settings)).figure
    assert row is not None
    assert (row.id, row.total_tokens_per_s) == ("phases.qwen-397b", 19_725)
