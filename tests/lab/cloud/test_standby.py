from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.cloud.kubelet_stages import LEADER
from lab.cloud.standby import Standby
from lab.cloud.timings import Timings
from lab.control_plane.api import Manifest
from tests.lab.cloud.fake_world import feed, make_world, on_node, pod, until


class Pickers:
    """Endpoint pickers of one pool."""

    def __init__(self) -> None:
        self.world, self.api = make_world(speed=600.0)
        self.standby = Standby(self.world, Timings())

    def start(self, name: str, *, alone: bool = False, pool: str = "pool-epp") -> Manifest:
        one = pod(name, {"cpu": "1"})
        one["metadata"]["labels"] = {"inferencepool": pool}
        one["spec"]["containers"][0]["args"] = [] if alone else ["--ha-enable-leader-election"]
        running = on_node(one, "node")
        feed(self.world.pods, "added", running)
        return running

    def led_by(self, name: str, pool: str = "pool-epp") -> None:
        until(lambda: self.standby.leader("vllm", pool) == name, f"{name} leads")
        until(
            lambda: (
                (name, {LEADER: "true"})
                in [(one, body["metadata"]["annotations"]) for _, one, body, _ in self.api.patches]
            )
        )


@pytest.fixture
def pickers() -> Iterator[Pickers]:
    made = Pickers()
    with made.standby:
        yield made


def test_the_first_picker_leads_and_the_second_stands_by(pickers: Pickers) -> None:
    pickers.start("first")
    pickers.led_by("first")
    pickers.start("second")
    pickers.world.clock.sleep(30)
    assert [name for _, name, _, _ in pickers.api.patches] == ["first"]


def test_a_single_picker_takes_part_in_no_election(pickers: Pickers) -> None:
    pickers.start("only", alone=True)
    pickers.world.clock.sleep(30)
    assert pickers.standby.leader("vllm", "pool-epp") is None
    assert pickers.api.patches == []


def test_the_second_takes_over_when_the_lease_of_the_first_has_run_out(pickers: Pickers) -> None:
    first = pickers.start("first")
    pickers.start("second")
    pickers.led_by("first")
    began = pickers.world.clock.now_seconds()
    feed(pickers.world.pods, "deleted", first)
    pickers.led_by("second")
    assert pickers.world.clock.now_seconds() - began >= 15


def test_each_pool_has_its_own_leader(pickers: Pickers) -> None:
    pickers.start("a-1", pool="a")
    pickers.start("b-1", pool="b")
    pickers.led_by("a-1", "a")
    pickers.led_by("b-1", "b")


def test_a_pool_whose_pickers_are_all_gone_has_no_leader_until_one_comes(pickers: Pickers) -> None:
    first = pickers.start("first")
    pickers.led_by("first")
    feed(pickers.world.pods, "deleted", first)
    pickers.start("next")
    pickers.led_by("next")
