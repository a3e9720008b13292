"""Tests of the questions that the planner takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planner.deployment import (
    Deployment,
    EngineShape,
    Lengths,
    OfferedLoad,
    Workload,
    measured_load,
    named_workload,
    record_fleet,
)
from planner.ledger import LedgerError


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: EngineShape(max_num_seqs=0), "max_num_seqs must be 1 or more, got 0"),
        (lambda: EngineShape(speculative_tokens=-1), "speculative_tokens must be 0 or more, got -1"),
        (lambda: EngineShape(running_limit=0), "running_limit must be 1 or more, got 0"),
        (
            lambda: EngineShape(gpu_memory_utilization=1.1),
            "gpu_memory_utilization must be above 0 and at most 1, got 1.1",
        ),
        (lambda: Deployment(nodes=0), "nodes must be 1 or more, got 0"),
        (
            lambda: Deployment(nodes=1, engine=EngineShape(tensor_parallel=2)),
            "data_parallel x tensor_parallel must be at most gpus_per_node, 8, got 16",
        ),
        (lambda: Lengths(min=2, mean=1, max=3), "min, mean and max must ascend from 0, got 2, 1, 3"),
        (
            lambda: Workload(input_tokens=Lengths.exactly(5), output_tokens=Lengths.exactly(0)),
            "output_tokens.min must be 1 or more, got 0",
        ),
        (
            lambda: Workload(input_tokens=Lengths.exactly(5), output_tokens=Lengths.exactly(1), shared_prefix_tokens=6),
            "shared_prefix_tokens must be between 0 and the shortest prompt, 5, got 6",
        ),
        (OfferedLoad, "give in_flight or requests_per_s, and not both"),
        (lambda: OfferedLoad(in_flight=1, requests_per_s=1), "and not both"),
        (lambda: OfferedLoad(in_flight=0), "must be above 0 and finite, got 0"),
        (lambda: OfferedLoad(requests_per_s=float("inf")), "must be above 0 and finite, got inf"),
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


def test_the_record_is_the_final_list_of_options_at_2000_in_flight_a_node() -> None:
    fleet = record_fleet(12)
    assert (fleet.engine.max_model_len_tokens, fleet.engine.max_num_batched_tokens) == (2560, 16_384)
    assert measured_load(12).in_flight == 24_000
    assert fleet.with_nodes(3) == record_fleet(3)
