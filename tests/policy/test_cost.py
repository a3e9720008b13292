from __future__ import annotations

from typing import Any

import pytest

import money
import rule
from pods import pods
from rule import Resource
from tests.policy.samples import RESERVED, found, google, kubernetes, only, server

ORDER = {
    "planningStatus": "SUBMITTED",
    "description": "vLLM fleet, stack cud, total $131,040.00",
    "specificReservationRequired": True,
    "specificSkuProperties": {"totalCount": "12", "instanceProperties": {"machineType": "a4-highgpu-8g"}},
    "timeWindow": {"duration": {"seconds": "604800"}},
}


def order(protect: bool = True, **change: Any) -> Resource:
    return google("compute/futureReservation:FutureReservation", {**ORDER, **change}, protect=protect)


def quota(gpus: str, key: str = "requests.nvidia.com/gpu", namespace: str = "vllm") -> Resource:
    metadata = {"name": "gpu", "namespace": namespace}
    return kubernetes("core/v1:ResourceQuota", {"metadata": metadata, "spec": {"hard": {key: gpus}}})


def job(*words: str, parallelism: int = 2) -> Resource:
    template = {"spec": {"containers": [{"name": "clients", "image": "x:1", "command": list(words)}]}}
    spec = {"parallelism": parallelism, "template": template}
    return kubernetes("batch/v1:Job", {"metadata": {"name": "bench", "namespace": "vllm"}, "spec": spec})


BENCH = job("vllm", "bench", "serve", "--model=m")


def test_an_order_without_its_total_is_found_with_what_it_orders() -> None:
    message = only("future-reservation-without-total", order(description="vLLM fleet"))
    assert "SUBMITTED for 12 x a4-highgpu-8g for 7 days" in message
    assert only("future-reservation-without-total", order(description=None))
    assert only("future-reservation-without-total", order(planningStatus=None, description=None))


@pytest.mark.parametrize("text", ["total $131,040.00", "Total: USD 131040", "fleet, total of 131040 dollars"])
def test_a_total_is_a_number_behind_the_word(text: str) -> None:
    assert found("future-reservation-without-total", order(description=text)) == []


def test_a_draft_needs_neither_total_nor_protection() -> None:
    draft = order(protect=False, planningStatus="DRAFT", description=None)
    assert found("future-reservation-without-total", draft) == []
    assert found("future-reservation-unprotected", draft) == []


def test_an_unprotected_order_is_found() -> None:
    assert "12 x a4-highgpu-8g for 7 days are ordered" in only("future-reservation-unprotected", order(protect=False))
    assert found("future-reservation-unprotected", order()) == []


def test_without_a_ceiling_no_price_is_too_high() -> None:
    assert found("hourly-cost-above-ceiling", [server(replicas=1_000)]) == []


def test_a_fleet_above_its_ceiling_is_found_with_the_sum() -> None:
    message = only("hourly-cost-above-ceiling", [server(), server(selector=RESERVED, replicas=1)], maxUsdPerHour=480.0)
    assert "cost $480.25 an hour, above $480.00" in message
    assert "Deployment server: 12 x $32.61; Deployment server: 1 x $88.93" in message
    assert "At stake: $480.25 an hour, $345,780 in 30 days" in message
    assert found("hourly-cost-above-ceiling", [server()], maxUsdPerHour=391.32) == []


def test_a_price_of_ones_own_counts_instead_of_the_list() -> None:
    assert "12 x $100.00" in only("hourly-cost-above-ceiling", [server()], maxUsdPerHour=1_000.0, usdPerNodeHour=100.0)


def test_nodes_without_a_price_are_named_not_taken_for_free() -> None:
    flex = {"cloud.google.com/gke-accelerator": "nvidia-b200", "cloud.google.com/gke-flex-start": "true"}
    unpriced = server(selector=flex, replicas=3)
    assert "3 GPU node(s) have no published price" in only("hourly-cost-above-ceiling", [unpriced], maxUsdPerHour=1.0)
    assert found("hourly-cost-above-ceiling", [unpriced], maxUsdPerHour=300.0, usdPerNodeHour=100.0) == []
    both = only("hourly-cost-above-ceiling", [unpriced, server()], maxUsdPerHour=100.0)
    assert "and 3 node(s) without a published price come on top" in both


def test_a_paused_fleet_costs_nothing() -> None:
    assert found("hourly-cost-above-ceiling", [server(replicas=0)], maxUsdPerHour=0.01) == []


@pytest.mark.parametrize("key", ["requests.nvidia.com/gpu", "limits.nvidia.com/gpu"])
def test_a_quota_above_the_plan_is_found_with_the_nodes_it_could_buy(key: str) -> None:
    message = only("gpu-quota-above-plan", [quota("104", key), server()])
    assert "the quota of namespace vllm admits 104 GPUs and its workloads ask for 96" in message
    assert "Fix: requests.nvidia.com/gpu: 96" in message
    assert "At stake: $32.61 an hour (1 A4 node, Spot, list price)" in message


def test_a_quota_at_the_plan_or_below_is_right() -> None:
    assert found("gpu-quota-above-plan", [quota("96"), server()]) == []
    assert found("gpu-quota-above-plan", [quota("8"), server()]) == []


def test_a_team_leaves_its_autoscaler_room() -> None:
    assert found("gpu-quota-above-plan", [quota("104"), server()], spareGpus=8.0) == []
    assert only("gpu-quota-above-plan", [quota("112"), server()], spareGpus=8.0)


def test_all_workloads_of_the_namespace_are_the_plan_and_none_of_another() -> None:
    assert found("gpu-quota-above-plan", [quota("104"), server(), server(replicas=1)]) == []
    assert only("gpu-quota-above-plan", [quota("104"), server(), server(replicas=1, namespace="other")])


def test_a_paused_fleet_needs_no_quota() -> None:
    assert only("gpu-quota-above-plan", [quota("96"), server(replicas=0)])
    assert found("gpu-quota-above-plan", [quota("0"), server(replicas=0)]) == []


def test_somebody_elses_replicas_and_somebody_elses_namespace_are_not_judged() -> None:
    assert found("gpu-quota-above-plan", [quota("960"), server(replicas=None)]) == []
    assert found("gpu-quota-above-plan", [quota("960")]) == []
    assert found("gpu-quota-above-plan", [quota("10", "pods"), server()]) == []


def test_a_benchmark_on_a_fleet_that_calls_itself_production_is_found() -> None:
    message = only("benchmark-in-production", [server(labels={"environment": "production"}), BENCH])
    assert message.startswith("Job bench sends load to a fleet that is in production: Deployment server has the label")
    assert "At stake: $391.32 an hour" in message


def test_the_namespace_may_say_it() -> None:
    namespace = kubernetes("core/v1:Namespace", {"metadata": {"name": "vllm", "labels": {"env": "prod"}}})
    assert "Namespace vllm has the label env: prod" in only("benchmark-in-production", [server(), BENCH, namespace])


def test_a_reservation_counts_as_production_until_something_says_otherwise() -> None:
    reserved = server(selector=RESERVED)
    assert "runs on the reservation b200" in only("benchmark-in-production", [reserved, BENCH])
    test = server(selector=RESERVED, labels={"environment": "test"})
    assert found("benchmark-in-production", [test, BENCH]) == []
    assert found("benchmark-in-production", [reserved, BENCH], environment="test") == []


def test_the_stacks_own_setting_decides() -> None:
    assert only("benchmark-in-production", [server(), BENCH], environment="production")
    assert found("benchmark-in-production", [server(), BENCH]) == []


@pytest.mark.parametrize(
    "words",
    [
        ("python3", "-m", "pod_scripts.launch_clients"),
        ("python", "benchmark_serving.py"),
        ("guidellm", "benchmark"),
        ("sh", "-c", "vllm bench serve --model m"),
    ],
)
def test_load_is_known_by_its_program(words: tuple[str, ...]) -> None:
    assert only("benchmark-in-production", [server(selector=RESERVED), job(*words)])


def test_another_job_and_a_stopped_one_send_no_load() -> None:
    assert found("benchmark-in-production", [server(selector=RESERVED), job("sh", "download.sh")]) == []
    assert found("benchmark-in-production", [server(selector=RESERVED), job("guidellm", parallelism=0)]) == []


def test_money_follows_the_way_the_nodes_are_had() -> None:
    assert money.at_stake(server()) == "$391.32 an hour (12 A4 nodes, Spot, list price)"
    assert money.at_stake(server(selector=RESERVED, replicas=1)) == (
        "$88.93 an hour (1 A4 node, reserved, 1-year commitment, list price)"
    )
    assert money.at_stake(server(selector={"cloud.google.com/gke-accelerator": "nvidia-l4"}, gpus=1)) == (
        "12 GPU nodes, no published price"
    )
    assert money.at_stake(BENCH) == ""
    assert money.at_stake(quota("96")) == ""


def test_two_pods_of_four_gpus_are_priced_as_two_nodes() -> None:
    # B200 nodes are never shared on Autopilot; elsewhere this says too much rather than too little.
    (pod,) = pods(server(gpus=4, replicas=2))
    assert pod.gpu_nodes == 2


def test_every_cost_rule_has_a_severity_and_a_fix() -> None:
    for one in rule.all_rules():
        assert one.fix
        assert one.severity in ("low", "medium", "high", "critical")
