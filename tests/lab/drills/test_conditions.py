"""Conditions under which drills do not apply to a stack."""

from __future__ import annotations

from typing import Any

from lab.drills.catalogue import DRILLS
from lab.drills.conditions import no_others
from lab.stage.variants import varied
from tests.support.rows import each_row
from tests.support.stacks import opened_stack

ONE_RANK = {"needs": {"concurrencyPerReplica": 250}, "engine": {"dataParallelSize": 1}}
L4 = {
    "machine": "g2-standard-12",
    "capacity": {"mode": "on-demand"},
    "model": {"id": "Qwen/Qwen3.5-4B"},
    "server": {"replicas": 1, "profile": "serve-chat", "engine": {"maxNumSeqs": 32, "speculative": None}},
}
OF_SEVERAL = {"drain", "preempt-four"}
WITHOUT_SERVERS = {"bring-up", "second-up", "destroy"}
EVERY = {drill.name for drill in DRILLS}


@each_row(
    ("stack", "sections", "skipped"),
    [
        ("spot", {}, set()),
        ("dev", {}, OF_SEVERAL),
        ("cud", {}, {"preempt-four", "stock-out"}),  # a reservation: no notice, and no stock that runs out
        ("dev", {"server": {"replicas": 0}}, EVERY - WITHOUT_SERVERS),
        ("dev", {"server": {"replicas": "external"}}, EVERY - WITHOUT_SERVERS),
        # A server that downloads its own weights has no second one to drill with.
        (
            "dev",
            {"weights": {"source": "huggingface"}},
            {*OF_SEVERAL, "to-zero", "rolling-update", "late-compute-class"},
        ),
        ("dev", {"machine": "a3-highgpu-1g", "server": {"replicas": 4, **ONE_RANK}}, set()),
        # Servers that share a machine: what counts machines of their own.
        ("dev", {"machine": "a3-highgpu-8g", "server": {"replicas": 4, "gpus": 1, **ONE_RANK}}, {"preempt-four"}),
        ("dev", L4, OF_SEVERAL),  # on demand: no notice, but stock that runs out
    ],
)
def test_what_a_stack_has_nothing_for_is_skipped(stack: str, sections: dict[str, Any], skipped: set[str]) -> None:
    settings = varied(opened_stack(stack), sections).settings
    assert {drill.name for drill in DRILLS if drill.skip(settings)} == skipped


def test_where_none_is_left_to_go_on_that_shows_nothing() -> None:
    assert no_others(2) == no_others(5, gone=4) == ""
    assert no_others(1)
    assert no_others(4, gone=4)
