"""One replica of the servers and the canary get one replica's load, straight at their pods."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.run.replica import Replica, replica, settings_of
from settings.derived.measurement import measurement
from settings.derived.traffic import traffic
from settings.stack import Settings
from tests.support.as_sent import as_sent
from tests.support.settings import make_settings
from tests.workloads.network_policy_semantics import Endpoint, allowed
from workloads import names
from workloads.network_policies import flows, policies

ADDRESSES = {"qwen35-server": "10.1.0.7", "qwen35-server-canary": "10.1.0.8"}
NOT_READY: dict[str, Any] = {"status": {"phase": "Running", "podIP": "10.1.0.6", "containerStatuses": []}}


def settings(**changes: Any) -> Settings:
    given = {
        "server": {"replicas": 12},
        "benchmark": {"enabled": True, "runOnUpdate": False},
        "rollout": {"engine": {"maxModelLen": 4096}},
    }
    return make_settings(**{**given, **changes})


STACK = settings()


class Kubectl:
    """A cluster with two servers and a canary, of which the second pod is ready."""

    def list_all(self, _: str, *, selector: str = "") -> list[dict[str, Any]]:
        app = selector.partition("=")[2]
        return [{"metadata": {"name": f"{app}-a"}, "spec": {}, **NOT_READY}, self.find("pod", f"{app}-b")]

    def find(self, _: str, name: str) -> dict[str, Any]:
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        status = {**ready, "podIP": ADDRESSES[name.removesuffix("-b")]}
        return {"metadata": {"name": name}, "spec": {"nodeName": "node"}, "status": status}


def both(stack: Settings = STACK) -> tuple[Replica, Replica]:
    return replica(Kubectl(), stack, "servers"), replica(Kubectl(), stack, "canary")  # type: ignore[arg-type]


def test_each_is_asked_at_its_pod_for_the_load_of_one_replica() -> None:
    servers, canary = both()
    assert (servers.address, canary.address) == ("10.1.0.7:8000", "10.1.0.8:8000")
    for key in ("workload", "points", "repeats", "prompts_per_client", "slo"):
        assert servers.asked.run[key] == canary.asked.run[key]
    whole = measurement(STACK).run["points"][0]["connections"]
    assert servers.asked.run["points"][0]["connections"] * 12 == whole
    assert [one.asked.run["shape"]["flags"]["max-model-len"] for one in (servers, canary)] == [2560, 4096]
    assert [one.asked.run["shape"]["replicas"] for one in (servers, canary)] == [1, 1]
    assert servers.asked.run["release"] == measurement(STACK).run["release"] != canary.asked.run["release"]


def test_a_gateway_and_an_autoscaler_are_passed_by() -> None:
    through = settings(gateway={"enabled": True}, server={"scaling": {"mode": "load", "max": 4}})
    for one in both(through):
        assert one.asked.run["shape"]["routing"] == "cluster-ip"
        assert one.settings.server.fixed_replicas == 1


def test_network_policies_let_the_load_reach_both_pods_and_no_other_port() -> None:
    for stack in (STACK, settings(gateway={"enabled": True})):
        specs = list(as_sent(policies(flows(traffic(stack)))).values())
        client = Endpoint(labels=names.selector(names.BENCHMARK_APP))
        for app in ADDRESSES:
            pod = Endpoint(labels={"app": app})
            assert allowed(specs, source=client, destination=pod, port=8000)
            assert not allowed(specs, source=client, destination=pod, port=22)


def test_a_stack_without_a_canary_or_without_a_ready_one_says_so() -> None:
    with pytest.raises(BenchmarkError, match="vllm-fleet:rollout"):
        settings_of(make_settings(benchmark={"enabled": True}), "canary")
    ranked = STACK.model_copy(update={"server": STACK.server.model_copy(update={"rank_ports": True})})
    with pytest.raises(BenchmarkError, match="rankPorts"):
        settings_of(ranked, "servers")
    kubectl = Kubectl()
    kubectl.find = lambda *_: {"metadata": {"name": "x"}, "spec": {}, **NOT_READY}  # type: ignore[method-assign]
    with pytest.raises(BenchmarkError, match="get pods --selector app=qwen35-server"):
        replica(kubectl, STACK, "servers")  # type: ignore[arg-type]
