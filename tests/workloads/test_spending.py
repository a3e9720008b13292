"""The spending guard's objects: what Kubernetes says to them, and that the guard may do what it does and no more."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Literal

import pulumi
import pytest

from facts.cost import node_price
from facts.names import MAX_NAMESPACE, spending_namespace
from fleet.preview.record.recorder import Recording
from settings.derived.spending import rates
from settings.derived.traffic import traffic
from settings.sections.spending import Spending
from settings.stack import Settings
from tests.support.as_sent import as_sent
from tests.support.recorded import manifest, named, recorded_component
from tests.support.schemas import problems
from tests.support.settings import make_settings
from tests.workloads.args import NAMESPACE, REGISTRY, spending_args
from workloads.network_policies import policies, spending_flows
from workloads.python_image import IMAGE
from workloads.spending.guard import ALIVE, ROLE
from workloads.spending.spending import OWN_RIGHTS, SpendingGuard, rights, terms

LIMIT = {"limit": 5000, "then": "pause"}
PRICED = {"mode": "spot", "usdPerNodeHour": 40.0}
LISTED = node_price("spot", "europe-west4")
SPOT_USD = 0.0 if LISTED is None else LISTED.usd
CLASS = {"mode": "compute-class", "usdPerNodeHour": 40.0}


def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
    return SpendingGuard("spending", spending_args(settings), opts)


@pytest.fixture(scope="module")
def recording() -> Recording:
    return recorded_component(build, spending=LIMIT)


def placed(recording: Recording) -> dict[str, tuple[str, str]]:
    """Kind and namespace of each Kubernetes object, by its logical name."""
    found = [one for one in recording.resources if one.type.startswith("kubernetes:")]
    assert [problem for one in found for problem in problems(manifest(one))] == []
    return {
        one.name: (one.type.rpartition(":")[2], one.inputs["metadata"].get("namespace", ""))
        for one in found
        if one.name.startswith("spending")
    }


def test_all_but_the_rights_over_the_servers_are_in_a_namespace_of_its_own(recording: Recording) -> None:
    home = spending_namespace(NAMESPACE)
    assert home != NAMESPACE
    assert placed(recording) == {
        "spending-namespace": ("Namespace", ""),
        "spending-network-policies-default-deny": ("NetworkPolicy", home),
        "spending-network-policies-spending-guard": ("NetworkPolicy", home),
        "spending-account": ("ServiceAccount", home),
        "spending-state": ("ConfigMap", home),
        "spending-own-role": ("Role", home),
        "spending-own-binding": ("RoleBinding", home),
        "spending-role": ("Role", NAMESPACE),
        "spending-binding": ("RoleBinding", NAMESPACE),
        "spending-deployment": ("Deployment", home),
    }
    assert named(recording, "spending-role").inputs["metadata"]["name"] == ROLE


def test_the_pod_is_restricted_and_ready_once_it_counts(recording: Recording) -> None:
    spec = named(recording, "spending-deployment").inputs["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    (container,) = spec["template"]["spec"]["containers"]
    assert container["image"] == f"{REGISTRY}/{IMAGE}"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert ALIVE in container["readinessProbe"]["exec"]["command"][-1]
    assert ALIVE.startswith(container["volumeMounts"][0]["mountPath"])


def test_the_configmap_has_no_data_so_that_an_update_never_writes_over_the_sum(recording: Recording) -> None:
    assert "data" not in named(recording, "spending-state").inputs


def test_names_of_namespaces_fit_and_differ() -> None:
    for length in (1, MAX_NAMESPACE, 63):
        first, second = (spending_namespace("n" * (length - 1) + end) for end in "ab")
        assert first != second
        assert max(len(first), len(second)) <= 63


def test_the_program_is_told_the_terms_and_the_bill(recording: Recording) -> None:
    (container,) = named(recording, "spending-deployment").inputs["spec"]["template"]["spec"]["containers"]
    *_, option = container["command"]
    told = json.loads(option.removeprefix("--config="))
    dear = terms(spending_args(make_settings(spending=LIMIT, capacity={**PRICED, "usdPerNodeHour": 0.1 + 0.2})))
    assert len(str(dear.usd_per_machine_hour).partition(".")[2]) <= 6
    expected = terms(spending_args(make_settings(spending=LIMIT)))
    assert told == json.loads(json.dumps(asdict(expected)))
    assert (expected.limit_usd, expected.then) == (5000.0, "pause")


@pytest.mark.parametrize(
    ("capacity", "server", "minutes"),
    [
        (PRICED, {"replicas": 2}, 11),
        (CLASS, {"replicas": 2}, 7),
        (CLASS, {"scaling": {"mode": "load", "max": 2}}, 2),
    ],
)
def test_an_empty_machine_is_paid_until_its_mode_and_its_class_remove_it(
    capacity: dict[str, Any], server: dict[str, Any], minutes: int
) -> None:
    told = terms(spending_args(make_settings(spending=LIMIT, capacity=capacity, server=server)))
    assert told.idle_seconds == 60 * minutes


@pytest.mark.parametrize("then", ["pause", "warn"])
def test_nothing_may_be_created_but_the_one_quota_and_who_only_warns_may_only_end_a_pause(
    then: Literal["pause", "warn"],
) -> None:
    rules: list[Any] = rights(Spending(then=then))
    (own,) = OWN_RIGHTS
    assert (own["resources"], own["resource_names"]) == (["configmaps"], ["spending"])
    writes = {
        (resource, verb): tuple(rule.get("resource_names", ()))
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in ("get", "list")
    }
    pausing = {("resourcequotas", verb): ("spending-pause",) for verb in ("create", "patch")} | {("pods", "delete"): ()}
    assert writes == {
        ("resourcequotas", "delete"): ("spending-pause",),
        **(pausing if then == "pause" else {}),
    }


def test_the_guard_reaches_the_control_plane_and_nothing_reaches_the_guard() -> None:
    spec: Any = as_sent(policies(spending_flows(traffic(make_settings(spending=LIMIT)))))["spending-guard"]
    assert spec["policyTypes"] == ["Egress"]
    assert [rule["ports"] for rule in spec["egress"]] == [[{"protocol": "TCP", "port": 443}]]


NAT_BY_MACHINE_USD = 0.01
"""Cloud NAT's price by machine, tenths of a cent an hour each, is in the whole bill but not in the rate of one machine."""


def test_machines_are_paid_while_they_run_and_all_else_always() -> None:
    found = rates(make_settings(capacity=PRICED, server={"replicas": 3}, benchmark={"enabled": True}, spending=LIMIT))
    paused = rates(make_settings(capacity=PRICED, server={"replicas": 0}, spending=LIMIT))
    assert found.per_machine == paused.per_machine >= 40
    assert found.full == pytest.approx(found.fixed + 3 * found.per_machine, abs=NAT_BY_MACHINE_USD)
    assert (found.paid_anyway, found.unknown) == (False, paused.unknown)


def test_nodes_of_a_reservation_are_paid_always() -> None:
    found = rates(make_settings(capacity={"mode": "reservation", "name": "r", "usdPerNodeHour": 50.0}, spending=LIMIT))
    assert found.paid_anyway
    assert found.fixed > 50 > found.per_machine


RESERVED = {"name": "block-7"}


@pytest.mark.parametrize(
    ("capacity", "reserved", "prices"),
    [
        pytest.param({"reservation": RESERVED}, 0, {"reservation": 90, "flex-start": 90, "spot": SPOT_USD}, id="prod"),
        pytest.param(
            {"reservation": {**RESERVED, "nodes": 3}, "flexStartSeconds": None},
            3,
            {"reservation": 90, "spot": SPOT_USD},
            id="a reservation of known size",
        ),
        pytest.param(
            {"reservation": {**RESERVED, "nodes": 3}, "flexStartSeconds": None, "spot": False},
            3,
            {"reservation": 90},
            id="alone",
        ),
        pytest.param({}, 0, {}, id="a stated price without a reservation is every priority's"),
    ],
)
def test_each_priority_of_a_compute_class_has_its_own_price(
    capacity: dict[str, Any], reserved: int, prices: dict[str, float]
) -> None:
    compute_class = {"mode": "compute-class", "usdPerNodeHour": 90.0, **capacity}
    found = rates(make_settings(capacity=compute_class, server={"replicas": 2}, spending=LIMIT))
    around = found.per_machine - 90
    assert found.per_priority == pytest.approx({priority: usd + around for priority, usd in prices.items()})
    assert (found.reserved_nodes, found.per_reserved_node) == (reserved, 90 if reserved else 0)
    # Two machines of the dearest priority, and the reserved one that they leave.
    idle = 90 if reserved else 0
    assert found.full == pytest.approx(found.fixed + 2 * found.per_machine + idle, abs=NAT_BY_MACHINE_USD)


def test_a_compute_class_without_a_published_price_of_a_priority_has_none() -> None:
    found = rates(make_settings(capacity={"mode": "compute-class"}, spending=LIMIT))
    assert (found.per_priority, found.full) == ({}, None)
    assert "nodes" in found.unknown_ids
