"""Tests of the questions that the planner takes."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor

import pytest

from facts import ledger
from facts.ledger import LedgerError
from fleet.plan.model.deployment import (
    Deployment,
    EngineShape,
    Lengths,
    OfferedLoad,
    Workload,
    measured_load,
    named_workload,
    record_fleet,
    workloads_with_lengths,
)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: EngineShape(max_num_seqs=0), "max_num_seqs must be 1 or more, got 0"),
        (lambda: EngineShape(speculative_tokens=-1), "speculative_tokens must be 0 or more, got -1"),
        (lambda: EngineShape(running_limit=0), "running_limit must be 1 or more, got 0"),
        (
            lambda: EngineShape(gpu_memory_utilization=1.1),
            "gpu_memory_utilization .* 1, got 1.1",
        ),
        (lambda: Deployment(nodes=0), "nodes must be 1 or more, got 0"),
        (
            lambda: Deployment(nodes=1, engine=EngineShape(tensor_parallel=2)),
            "data_parallel x tensor_parallel .* gpus_per_node, 8, got 16",
        ),
        (lambda: Lengths(min=2, mean=1, max=3), "min, mean and max .* got 2, 1, 3"),
        (
            lambda: Workload(input_tokens=Lengths.exactly(5), output_tokens=Lengths.exactly(0)),
            "output_tokens.min must be 1 or more, got 0",
        ),
        (
            lambda: Workload(input_tokens=Lengths.exactly(5), output_tokens=Lengths.exactly(1), shared_prefix_tokens=6),
            "shared_prefix_tokens .* 5, got 6",
        ),
        (OfferedLoad, "in_flight or requests_per_s"),
        (lambda: OfferedLoad(in_flight=1, requests_per_s=1), "in_flight or requests_per_s"),
        (lambda: OfferedLoad(in_flight=0), "got 0"),
        (lambda: OfferedLoad(requests_per_s=float("inf")), "got inf"),
    ],
)
def test_a_question_that_cannot_be_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_the_article_is_a_workload_by_name_and_an_unknown_name_is_refused() -> None:
    article = named_workload("article")
    assert (article.tokens_per_request, article.longest_request_tokens) == (1152, 1536)
    with pytest.raises(LedgerError, match=r"no entry 'articel'.*article"):
        named_workload("articel")


def test_a_workload_of_a_file_has_no_lengths_to_count_with() -> None:
    assert workloads_with_lengths() == ("article", "vllm-1024-512", "shared-prefix-512")
    for name in ("sharegpt", "trace"):
        with pytest.raises(LedgerError, match=f"'{name}' .*shared-prefix-512"):
            named_workload(name)


def test_a_shared_prefix_counts_as_one() -> None:
    shared = named_workload("shared-prefix-512")
    assert (shared.shared_prefix_tokens, shared.tokens_per_request, shared.longest_request_tokens) == (512, 1280, 1536)


@pytest.mark.parametrize("name", workloads_with_lengths())
def test_the_lengths_of_a_workload_are_those_that_vllm_draws_from_its_options(name: str) -> None:
    # Source: RandomDataset.get_sampling_params of vLLM 0.18.1, for a tokenizer that adds no special tokens.
    entry = ledger.entry("workloads", "workloads", name)
    options = entry["bench_0_18_1"]
    ratio, prefix = options["random-range-ratio"], options.get("random-prefix-len", 0)
    for asked, lengths, before in (
        (options["random-input-len"], entry["input_tokens"], prefix),
        (options["random-output-len"], entry["output_tokens"], 0),
    ):
        drawn = (before + floor(asked * (1 - ratio)), before + asked, before + ceil(asked * (1 + ratio)))
        assert drawn == (lengths["min"], lengths["mean"], lengths["max"])
    mean = entry["input_tokens"]["mean"] + entry["output_tokens"]["mean"]
    assert entry["total_tokens_per_request"] == mean
    assert entry["output_share"] == pytest.approx(entry["output_tokens"]["mean"] / mean)
    assert entry["longest_request_tokens"] == entry["input_tokens"]["max"] + entry["output_tokens"]["max"]
    assert entry.get("shared_prefix_tokens", 0) == prefix


def test_the_record_is_the_final_list_of_options_at_2000_in_flight_a_node() -> None:
    fleet = record_fleet(12)
    assert (fleet.engine.max_model_len_tokens, fleet.engine.max_num_batched_tokens) == (2560, 16_384)
    assert measured_load(12).in_flight == 24_000
    assert fleet.with_nodes(3) == record_fleet(3)
