from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lab.stage.story import Story
from tests.lab.stage.traffic.pods import FakeObjects, changed, pod


class FixedClock:
    """A clock that a test sets."""

    now = 0.0

    def now_seconds(self) -> float:
        return self.now


class Watched:
    def __init__(self) -> None:
        self.clock = FixedClock()
        self.pods, self.nodes = FakeObjects(), FakeObjects()
        world: Any = SimpleNamespace(clock=self.clock, pods=self.pods, nodes=self.nodes)
        self.story = Story(world)

    def at(self, seconds: float) -> Watched:
        self.clock.now = seconds
        return self

    def told(self, since: float = 0.0) -> list[tuple[str, float, float | None, str]]:
        return [
            (moment.text, moment.at_seconds, moment.until_seconds, moment.mood) for moment in self.story.moments(since)
        ]


def unscheduled(name: str) -> Any:
    one = pod(name, ready=False)
    del one["spec"]["nodeName"]
    return one


def test_a_pod_waits_starts_serves_and_ends() -> None:
    here = Watched()
    one = unscheduled("a")
    here.at(10).pods.put(one)
    placed = {**one, "spec": {**one["spec"], "nodeName": "n"}}
    here.at(340).pods.put(placed)
    here.at(341).pods.put(placed)
    ready = changed(placed, ready=True)
    here.at(900).pods.put(ready)
    here.at(1500).pods.put(changed(ready, deleted_with_grace=15))
    here.at(1510).pods.remove("a")
    here.at(2000)
    assert here.told() == [
        ("waiting for a node", 10, 340, "waiting"),
        ("starting", 340, 900, "waiting"),
        ("Ready", 900, 1500, "good"),
        ("ending", 1500, 1510, "plain"),
    ]


def test_what_lasts_ends_with_the_time_asked_for_and_what_began_before_is_cut_to_it() -> None:
    here = Watched()
    here.at(5).pods.put(pod("a"))
    here.at(100)
    assert here.told() == [("Ready", 5, 100, "good")]
    assert here.told(since=50) == [("Ready", 50, 100, "good")]
    assert here.told(since=100) == []


def test_a_dead_container_is_not_a_start() -> None:
    here = Watched()
    one = pod("a")
    here.at(0).pods.put(one)
    here.at(10).pods.put(changed(one, ready=False, restarts=1))
    here.at(20).pods.put(changed(one, ready=True, restarts=1))
    here.at(30)
    assert [text for text, *_ in here.told()] == ["Ready", "not Ready", "Ready"]


def test_a_notice_and_a_failure_are_told_apart() -> None:
    here = Watched()
    one = pod("a")
    here.at(0).pods.put(one)
    here.at(10).pods.put(changed(one, notice=True))
    here.at(25).pods.put(changed(one, notice=True, phase="Failed"))
    here.at(40).pods.remove("a")
    assert [text for text, *_ in here.told()] == ["Ready", "terminating: its node shuts down", "failed"]


def test_a_job_that_is_done_is_good() -> None:
    here = Watched()
    one = pod("a", ready=False)
    here.at(0).pods.put(one)
    here.at(10).pods.put(changed(one, phase="Succeeded"))
    here.at(20)
    assert here.told() == [("starting", 0, 10, "waiting"), ("done", 10, 20, "good")]


def test_a_machine_of_the_same_name_is_another_one() -> None:
    here = Watched()

    def node(uid: str, status: str) -> Any:
        conditions = [{"type": "Ready", "status": status}]
        return {"metadata": {"name": "n", "uid": uid}, "status": {"conditions": conditions}}

    here.at(0).nodes.put(node("1", "False"))
    here.at(5).nodes.put(node("1", "True"))
    here.at(10).nodes.put(node("1", "False"))
    here.at(15).nodes.remove("n")
    here.at(20).nodes.put(node("2", "False"))
    here.at(30)
    assert here.told() == [
        ("starting", 0, 5, "waiting"),
        ("Ready", 5, 10, "good"),
        ("not Ready", 10, 15, "bad"),
        ("starting", 20, 30, "waiting"),
    ]
