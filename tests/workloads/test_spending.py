"""The spending guard's objects: what Kubernetes says to them, and that the guard may do what it does and no more."""

from __future__ import annotations

import json
from typing import Any, Literal

import pulumi
import pytest

from fleet.preview.record.recorder import Recording
from settings.derived.spending import rates
from settings.derived.traffic import traffic
from settings.sections.spending import Spending
from settings.stack import Settings
from tests.support.as_sent import as_sent
from tests.support.recorded import manifest, objects, recorded_component
from tests.support.schemas import problems
from tests.support.settings import make_settings
from tests.workloads.args import REGISTRY, spending_args
from workloads.network_policies import flows, policies
from workloads.spending.spending import IMAGE, SpendingGuard, configuration, rights

LIMIT = {"limit": 5000, "then": "pause"}
PRICED = {"mode": "spot", "usdPerNodeHour": 40.0}


def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
    return SpendingGuard("spending", spending_args(settings), opts)


@pytest.fixture(scope="module")
def recording() -> Recording:
    return recorded_component(build, spending=LIMIT)


def test_every_object_is_valid_and_the_pod_is_restricted(recording: Recording) -> None:
    found = objects(recording)
    kinds = {"ServiceAccount", "Role", "RoleBinding", "Deployment"}
    assert set(found) == {*(f"{kind}/spending-guard" for kind in kinds), "ConfigMap/spending"}
    assert [problem for one in found.values() for problem in problems(manifest(one))] == []
    spec = found["Deployment/spending-guard"].inputs["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    (container,) = spec["template"]["spec"]["containers"]
    assert container["image"] == f"{REGISTRY}/{IMAGE}"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_configmap_has_no_data_so_that_an_update_never_writes_over_the_sum(recording: Recording) -> None:
    assert "data" not in objects(recording)["ConfigMap/spending"].inputs


def test_the_program_is_told_the_terms_and_the_bill(recording: Recording) -> None:
    (container,) = objects(recording)["Deployment/spending-guard"].inputs["spec"]["template"]["spec"]["containers"]
    *_, option = container["command"]
    told = json.loads(option.removeprefix("--config="))
    dear = configuration(
        spending_args(make_settings(spending=LIMIT, capacity={**PRICED, "usdPerNodeHour": 0.1 + 0.2})), "vllm"
    )
    assert len(str(dear["usdPerMachineHour"]).partition(".")[2]) <= 6
    assert told == configuration(spending_args(make_settings(spending=LIMIT)), "vllm")
    assert (told["limitUsd"], told["then"], told["onUnknown"]) == (5000.0, "pause", "warn")


@pytest.mark.parametrize("then", ["pause", "warn"])
def test_nothing_may_be_created_but_the_one_quota_and_who_only_warns_may_only_end_a_pause(
    then: Literal["pause", "warn"],
) -> None:
    rules: list[Any] = rights(Spending(then=then))
    writes = {
        (resource, verb): tuple(rule.get("resource_names", ()))
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in ("get", "list")
    }
    pausing = {("resourcequotas", verb): ("spending-pause",) for verb in ("create", "patch")} | {("pods", "delete"): ()}
    assert writes == {
        ("configmaps", "patch"): ("spending",),
        ("resourcequotas", "delete"): ("spending-pause",),
        ("replicasets/status", "patch"): (),
        **(pausing if then == "pause" else {}),
    }


def test_the_guard_reaches_the_control_plane_and_nothing_reaches_the_guard() -> None:
    spec: Any = as_sent(policies(flows(traffic(make_settings(spending=LIMIT)))))["spending-guard"]
    assert spec["policyTypes"] == ["Egress"]
    assert [rule["ports"] for rule in spec["egress"]] == [[{"protocol": "TCP", "port": 443}]]
    assert "spending-guard" not in policies(flows(traffic(make_settings())))


def test_machines_are_paid_while_they_run_and_all_else_always() -> None:
    found = rates(make_settings(capacity=PRICED, server={"replicas": 3}, benchmark={"enabled": True}, spending=LIMIT))
    paused = rates(make_settings(capacity=PRICED, server={"replicas": 0}, spending=LIMIT))
    assert found.per_machine == paused.per_machine >= 40
    assert found.full == pytest.approx(found.fixed + 3 * found.per_machine)
    assert (found.paid_anyway, found.unknown) == (False, paused.unknown)


def test_nodes_of_a_reservation_are_paid_always() -> None:
    found = rates(make_settings(capacity={"mode": "reservation", "name": "r", "usdPerNodeHour": 50.0}, spending=LIMIT))
    assert found.paid_anyway
    assert found.fixed > 50 > found.per_machine
