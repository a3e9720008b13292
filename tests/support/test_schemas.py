"""The manifest checks find what an API server would refuse."""

from __future__ import annotations

import pytest

from tests.support.schemas import CRD_FOLDER, problems


def test_a_misspelt_field_of_a_core_kind_is_found() -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": {"acessModes": []}}
    assert "acessModes" in problems(claim)[0]


def test_a_misspelt_field_of_a_policy_is_found() -> None:
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "a"},
        "spec": {"podSelector": {}, "policyType": ["Egress"]},
    }
    assert "policyType" in problems(policy)[0]


@pytest.mark.skipif(not CRD_FOLDER.is_dir(), reason="the real CRDs are not beside the repository")
def test_wrong_fields_of_custom_resources_are_found_at_any_depth() -> None:
    spec = {"selector": {}, "endpoints": [{"port": "http", "intervall": "15s"}]}
    scrape = {"apiVersion": "monitoring.googleapis.com/v1", "kind": "PodMonitoring", "metadata": {}, "spec": spec}
    found = " ".join(problems(scrape))
    assert "intervall" in found
    assert "'interval' is a required property" in found
    rung = {"machineType": "a4-highgpu-8g", "gpu": {"type": "nvidia-b200", "count": "8"}}
    compute_class = {"apiVersion": "cloud.google.com/v1", "kind": "ComputeClass"}
    compute_class["spec"] = {"priorities": [rung], "whenUnsatisfiable": "DoNotScaleUp"}
    assert "'8' is not of type 'integer'" in problems(compute_class)[0]
    assert problems({"apiVersion": "cloud.google.com/v1", "kind": "ComputerClass"}) == [
        "no schema for cloud.google.com/v1 ComputerClass"
    ]
