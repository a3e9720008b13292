"""Tests of the questions that the planner takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fleet.plan.model.deployment import Deployment, EngineShape, OfferedLoad, measured_load, record_fleet
from tests.support.rows import each_row


@each_row(
    ("build", "message"),
    [
        (lambda: EngineShape(max_num_seqs=0), "max_num_seqs must be 1 or more, got 0"),
        (lambda: EngineShape(speculative_tokens=-1), "speculative_tokens must be 0 or more, got -1"),
        (
            lambda: EngineShape(gpu_memory_utilization=1.1),
            "gpu_memory_utilization .* 1, got 1.1",
        ),
        (lambda: Deployment(nodes=0), "nodes must be 1 or more, got 0"),
        (
            lambda: Deployment(nodes=1, engine=EngineShape(tensor_parallel=2)),
            "data_parallel x tensor_parallel .* gpus_per_node, 8, got 16",
        ),
        (OfferedLoad, "in_flight and requests_per_s"),
        (lambda: OfferedLoad(in_flight=1, requests_per_s=1), "in_flight and requests_per_s"),
        (lambda: OfferedLoad(in_flight=0), "got 0"),
        (lambda: OfferedLoad(requests_per_s=float("inf")), "got inf"),
    ],
)
def test_a_question_that_cannot_be_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_the_record_is_the_final_list_of_options_at_2000_in_flight_a_node() -> None:
    fleet = record_fleet(12)
    assert (fleet.engine.max_model_len_tokens, fleet.engine.max_num_batched_tokens) == (2560, 16_384)
    assert measured_load(12).in_flight == 24_000
    assert fleet.with_nodes(3) == record_fleet(3)
