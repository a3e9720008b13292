"""What chooses a server, and what it excludes."""

from __future__ import annotations

from typing import Any

import pytest

from facts.finding import Finding
from settings.load import check
from settings.problems import SettingsError
from tests.support.rows import each_row
from tests.support.settings import make_settings

KEYED = {"replicas": 2, "apiKeySecret": "servers"}
DOOR = {"enabled": True}


def found(**sections: Any) -> dict[str, Finding]:
    return {problem.subject.removeprefix("vllm-fleet:"): problem for problem in check(make_settings(**sections))}


def clients(*given: tuple[str, str]) -> dict[str, Any]:
    return {"kind": "leastRequest", "router": {"clients": [{"name": name, "secret": secret} for name, secret in given]}}


@each_row(
    ("given", "subject"),
    [
        ((("a", "one"), ("a", "two")), "endpoint.router.clients[1].name"),
        ((("a", "one"), ("b", "one")), "endpoint.router.clients[1].secret"),
        ((("a", "servers"),), "endpoint.router.clients[0].secret"),
    ],
)
def test_a_key_stands_for_one_client(given: tuple[tuple[str, str], ...], subject: str) -> None:
    assert found(server=KEYED, endpoint=clients(*given))[subject].id == "client-twice"


def test_clients_with_keys_of_their_own_are_accepted() -> None:
    problems = found(server=KEYED, endpoint=clients(("a", "one"), ("b", "two")))
    assert [problem for problem in problems.values() if problem.blocks] == []


def test_a_rate_that_no_window_counts_is_refused() -> None:
    slow = clients(("a", "one"))
    slow["router"]["clients"][0]["requestsPerSecond"] = 0.01
    with pytest.raises(SettingsError, match=r"requestsPerSecond"):
        make_settings(server=KEYED, endpoint=slow)


@each_row("kind", ["clusterIp", "leastRequest"])
def test_a_picker_is_set_only_where_there_is_one(kind: str) -> None:
    door = {**DOOR, "epp": {"cpu": 12}}
    assert found(gateway=door, endpoint={"kind": kind})["gateway.epp"].id == "picker-without-effect"
    assert "gateway.epp" not in found(gateway=door)


@each_row(
    ("gateway", "written"),
    [({}, "no weight, or gateway: {enabled: true}"), (DOOR, "no weight, or endpoint: {kind: inferenceGateway}")],
)
def test_a_canary_among_users_is_told_what_it_lacks(gateway: dict[str, Any], written: str) -> None:
    canary = {"canary": {"engine": {"seed": 1}, "weight": 5}}
    problem = found(gateway=gateway, endpoint={"kind": "leastRequest"}, rollout=canary)["rollout.canary.weight"]
    assert (problem.id, problem.write) == ("canary-weight-without-gateway", written)
