"""The verdict over the benchmark's own pods, clients and merge, against servers that keep time: faster, slower, wrong, and one that
dies. Runs are short, so certificates are set to what a long run has; what is measured is real.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.rollout.judge.answers import ask_each
from fleet.rollout.judge.judging import judge
from fleet.rollout.judge.side import Side, read_side
from fleet.rollout.judge.verdict import Limits
from lab.simulators.model_server.engine_server import EngineServer
from lab.simulators.model_server.in_thread import serving
from lab.simulators.model_server.node import Faults, Node, Pace
from tests.fleet.rollout.judge.sides import answers, decided_by, replica
from tests.support.benchmark import Load, measure, needs_vllm

pytestmark = pytest.mark.slow
NODE = Node(model="the/model", ranks=2, pace=Pace(fixed_s=0.2), speculative_tokens=1, max_model_len=4096)
LOAD = Load(input_tokens=20, output_tokens=24, connections=64, clients=1, requests_per_client=320, repeats=3)
WIDE = Limits(throughput=0.2, ttft=1, tpot=1)
"""Of a faster canary on a busy machine, whose delays are no server's."""
NARROW = Limits(throughput=0, ttft=1, tpot=0.02)
"""Of a slower one: where it is certain that it is slower at all. A median time between tokens is hardly the machine's."""


def measured(
    room: Path, name: str, node: Node, load: Load = LOAD, meddle: Callable[[EngineServer], None] = lambda _: None
) -> Side:
    """A side from its server's start to its folder; without what only a long run can have."""
    with serving(lambda: EngineServer(node)) as server:
        # A server that dies fails the benchmark, and what there is is fetched all the same.
        folder, _ = measure(load, node, server.url, room, look=lambda: meddle(server))
    return replace(read_side(name, folder), answers=answers())


def long_enough(side: Side) -> Side:
    """Nothing failed that a short run on a busy machine fails."""
    checks = [[one for one in each.checks if one.blames == "server"] for each in side.certificates]
    pairs = zip(side.certificates, checks, strict=True)
    return replace(side, certificates=tuple(one.model_copy(update={"checks": tuple(kept)}) for one, kept in pairs))


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Side]:
    """Both at once, each with a server and a client of its own, which hardly use a core."""
    room = tmp_path_factory.mktemp("sides")
    nodes = {"faster": NODE, "slower": replace(NODE, pace=Pace(fixed_s=0.222))}
    with ThreadPoolExecutor(len(nodes)) as threads:
        made = threads.map(lambda name: long_enough(measured(room / name, name, nodes[name])), nodes)
        return dict(zip(nodes, made, strict=True))


@needs_vllm
def test_a_faster_canary_is_promoted_and_one_a_tenth_slower_rejected(sides: dict[str, Side]) -> None:
    faster = judge(sides["slower"], sides["faster"], WIDE)
    assert faster.verdict == "promote", faster.headline
    slower = judge(sides["faster"], sides["slower"], NARROW)
    assert slower.verdict == "reject", slower.headline
    assert "tpot-p50" in decided_by(slower, "reject")
    assert not {"throughput", "output"} & decided_by(slower, "promote")
    assert "errors" in decided_by(slower, "promote")


@needs_vllm
def test_a_canary_that_dies_midway_is_rejected_by_its_results_alone(tmp_path: Path) -> None:
    def kill(server: EngineServer) -> None:
        if server.accepted > 100:
            server.faults = Faults(engine_dead=True)

    dead = measured(tmp_path / "canary", "canary", NODE, replace(LOAD, repeats=1), kill)
    verdict = judge(replica("old"), dead, WIDE)
    assert verdict.verdict == "reject"
    assert decided_by(verdict, "reject") & {"errors", "results-canary", "certificate"}


@pytest.mark.parametrize(
    ("faults", "rejected"),
    [
        (Faults(), set()),
        (Faults(wrong_answers=True), {"agreement", "arithmetic"}),
        (Faults(unavailable_share=0.5), {"agreement", "arithmetic", "soundness"}),
    ],
)
def test_both_are_asked_and_a_wrong_canary_is_found(faults: Faults, rejected: set[str]) -> None:
    node = replace(NODE, pace=Pace(fixed_s=0.002))
    with (
        serving(lambda: EngineServer(node)) as first,
        serving(lambda: EngineServer(node, faults=faults)) as second,
    ):
        told = ask_each({"old": (first.url, NODE.model), "canary": (second.url, NODE.model)}, None)
    old, canary = (replace(replica(name), answers=told[name]) for name in ("old", "canary"))
    verdict = judge(old, canary, Limits())
    assert decided_by(verdict, "reject") == rejected
    assert verdict.verdict == ("reject" if rejected else "promote"), verdict.headline
