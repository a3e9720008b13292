from __future__ import annotations

from lab.cloud.gateway_status import (
    GOOD,
    Verdict,
    gateway_status,
    policy_status,
    route_status,
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


def test_a_gateway_that_cannot_be_programmed_says_nothing_of_why() -> None:
    status = gateway_status(GATEWAY, address="", routes=0, now="t")
    assert conditions(status)["Accepted"] == ("True", "")
    assert conditions(status)["Programmed"] == ("False", "")
    assert status["addresses"] == []


def test_a_programmed_gateway_has_an_address_and_its_listeners_routes() -> None:
    status = gateway_status(GATEWAY, address="10.0.15.200", routes=2, now="t")
    assert conditions(status)["Programmed"][0] == "True"
    assert conditions(status)["networking.gke.io/GatewayHealthy"][0] == "True"
    assert status["addresses"] == [{"type": "IPAddress", "value": "10.0.15.200"}]
    assert status["listeners"][0]["attachedRoutes"] == 2


def test_a_route_to_nowhere_is_not_resolved() -> None:
    route = {"metadata": {"name": "r", "namespace": "n", "generation": 1}}
    lost = route_status(route, [{"name": "g"}], Verdict("BackendNotFound", "not there"), now="t")
    found = route_status(route, [{"name": "g"}], GOOD, now="t")
    assert conditions(lost["parents"][0])["ResolvedRefs"] == ("False", "not there")
    assert conditions(found["parents"][0])["ResolvedRefs"] == ("True", "")


def test_a_second_policy_is_not_attached() -> None:
    policy = {"metadata": {"name": "p", "namespace": "n", "generation": 1}}
    assert conditions(policy_status(policy, Verdict("Conflicted", "one is enough"), now="t"))["Attached"] == (
        "False",
        "one is enough",
    )


def test_a_status_that_says_the_same_is_not_written_again_whenever_it_began() -> None:
    old = gateway_status(GATEWAY, address="10.0.15.200", routes=1, now="then")
    assert same(old, gateway_status(GATEWAY, address="10.0.15.200", routes=1, now="now"))
    assert not same(old, gateway_status(GATEWAY, address="10.0.15.200", routes=2, now="now"))
    assert not same({}, old)


def test_a_condition_that_still_holds_keeps_its_time() -> None:
    old = gateway_status(GATEWAY, address="", routes=0, now="then")
    new = with_old_times(old, gateway_status(GATEWAY, address="10.0.15.200", routes=0, now="now"))
    times = {one["type"]: one["lastTransitionTime"] for one in new["conditions"]}
    assert (times["Accepted"], times["Programmed"]) == ("then", "now")
    listener = {one["type"]: one["lastTransitionTime"] for one in new["listeners"][0]["conditions"]}
    assert (listener["Accepted"], listener["Programmed"]) == ("then", "now")
