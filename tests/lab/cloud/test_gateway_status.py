from __future__ import annotations

from lab.cloud.gateway_status import (
    gateway_status,
    same,
    with_old_times,
)

GATEWAY = {
    "metadata": {"name": "g", "namespace": "n", "generation": 3},
    "spec": {"gatewayClassName": "gke-l7-rilb", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
}


def conditions(status: dict[str, object]) -> dict[str, tuple[str, str]]:
    found = status["conditions"]
    assert isinstance(found, list)
    return {one["type"]: (one["status"], one["message"]) for one in found}


def test_a_status_that_says_the_same_is_not_written_again_whenever_it_began() -> None:
    old = gateway_status(GATEWAY, address="10.0.15.200", routes={"http": 1}, now="then")
    assert same(old, gateway_status(GATEWAY, address="10.0.15.200", routes={"http": 1}, now="now"))
    assert not same(old, gateway_status(GATEWAY, address="10.0.15.200", routes={"http": 2}, now="now"))
    assert not same({}, old)


def test_a_condition_that_still_holds_keeps_its_time() -> None:
    old = gateway_status(GATEWAY, address="", routes={"http": 0}, now="then")
    new = with_old_times(old, gateway_status(GATEWAY, address="10.0.15.200", routes={"http": 0}, now="now"))
    times = {condition["type"]: condition["lastTransitionTime"] for condition in new["conditions"]}
    assert (times["Accepted"], times["Programmed"]) == ("then", "now")
    listener = {condition["type"]: condition["lastTransitionTime"] for condition in new["listeners"][0]["conditions"]}
    assert (listener["Accepted"], listener["Programmed"]) == ("then", "now")
