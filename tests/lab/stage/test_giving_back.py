"""A scaled Deployment goes back to Pulumi."""

from __future__ import annotations

from lab.control_plane.api import FIELD_MANAGER
from lab.stage.giving_back import returned_to_pulumi

PULUMI = {
    "manager": "pulumi-kubernetes-006330ec",
    "operation": "Apply",
    "fieldsV1": {"f:metadata": {}, "f:spec": {"f:selector": {}}},
}
SCALED = {
    "manager": FIELD_MANAGER,
    "operation": "Update",
    "subresource": "scale",
    "fieldsV1": {"f:spec": {"f:replicas": {}}},
}
CONTROLLER = {
    "manager": "kube-controller-manager",
    "operation": "Update",
    "subresource": "status",
    "fieldsV1": {"f:status": {}},
}


def test_the_number_of_replicas_goes_back_to_whoever_applies_the_deployment() -> None:
    pulumi, controller = returned_to_pulumi([PULUMI, SCALED, CONTROLLER])
    assert pulumi["fieldsV1"]["f:spec"] == {"f:selector": {}, "f:replicas": {}}
    assert pulumi["fieldsV1"]["f:metadata"] == {}
    assert controller == CONTROLLER


def test_nothing_changes_where_nobody_scaled() -> None:
    owners = returned_to_pulumi([PULUMI, CONTROLLER])
    assert returned_to_pulumi(owners) == owners


def test_the_given_owners_are_left_as_they_are() -> None:
    returned_to_pulumi([PULUMI, SCALED])
    assert PULUMI["fieldsV1"] == {"f:metadata": {}, "f:spec": {"f:selector": {}}}


def test_another_ones_scale_stays_his() -> None:
    autoscaler = {**SCALED, "manager": "horizontal-pod-autoscaler"}
    assert autoscaler in returned_to_pulumi([PULUMI, autoscaler])
