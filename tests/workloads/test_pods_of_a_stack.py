"""The pods of whole stacks, held against the guards of their namespace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fleet.preview.record.recorder import Recording, record
from tests.support.recorded import ROOT, manifest, objects
from tests.support.settings import make_config

SHAPES: dict[str, dict[str, Any]] = {
    "spot": {},
    "gateway with benchmark": {"gateway": {"enabled": True}, "benchmark": {"enabled": True}},
    "key, token, benchmark and canary": {
        "apiKey": "notakey-notakey",
        "hfToken": "notatoken",
        "benchmark": {"enabled": True},
        "rollout": {"model": {"revision": "0123456789abcdef" * 2 + "01234567"}},
    },
    "canary among users": {
        "gateway": {"enabled": True},
        "rollout": {"engine": {"seed": 1}, "weight": 5},
    },
    "huggingface": {"weights": {"source": "huggingface"}, "server": {"replicas": 1}},
}


@pytest.fixture(scope="module", params=SHAPES)
def stack(request: pytest.FixtureRequest) -> Recording:
    return record(
        ROOT,
        project="vllm-fleet",
        stack="test",
        config=make_config(**SHAPES[request.param]),
        secret_keys=("vllm-fleet:hfToken", "vllm-fleet:apiKey"),
        mode="known",
    )


def pods(recording: Recording) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, resource in objects(recording).items():
        if key.startswith(("Deployment/", "Job/")):
            yield key, manifest(resource)["spec"]["template"]


def test_each_pod_is_meant_by_a_policy_of_its_own_and_allowed_out_by_no_other(stack: Recording) -> None:
    """A label that drifts from the table leaves a pod with the default deny alone."""
    policies = {
        key: manifest(one)["spec"]["podSelector"].get("matchLabels", {})
        for key, one in objects(stack).items()
        if key.startswith("NetworkPolicy/")
    }
    found = list(pods(stack))
    assert found
    for key, template in found:
        labels = template["metadata"]["labels"].items()
        own = [name for name, wanted in policies.items() if wanted and wanted.items() <= labels]
        # A canary's own policies also let clients out to it.
        assert len([name for name in own if not name.endswith("-of-canary")]) == 1, (key, own)


def test_each_pod_meets_the_restricted_level_and_writes_nothing_to_its_image(stack: Recording) -> None:
    for key, template in pods(stack):
        spec = template["spec"]
        assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", key
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), key
        for container in (*spec["containers"], *spec.get("initContainers", [])):
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False, key
            assert own["capabilities"] == {"drop": ["ALL"]}, key
            assert own["readOnlyRootFilesystem"] is True, key
            assert {**spec["securityContext"], **own}["runAsNonRoot"] is True, key
            assert not any("hostPort" in port for port in container.get("ports", [])), key
        allowed = {"persistentVolumeClaim", "configMap", "emptyDir", "secret", "csi", "projected", "downwardAPI"}
        for volume in spec["volumes"]:
            assert set(volume) - {"name"} <= allowed, (key, volume)


def test_each_pod_uses_an_account_that_exists_and_carries_no_token(stack: Recording) -> None:
    accounts = {key.partition("/")[2] for key in objects(stack) if key.startswith("ServiceAccount/")}
    for key, template in pods(stack):
        assert template["spec"]["serviceAccountName"] in accounts, key
        assert template["spec"]["automountServiceAccountToken"] is False, key


def test_each_secret_that_a_pod_mounts_is_made_by_the_stack(stack: Recording) -> None:
    made = objects(stack)
    for key, template in pods(stack):
        for volume in template["spec"]["volumes"]:
            if "secret" in volume:
                assert f"Secret/{volume['secret']['secretName']}" in made, (key, volume)
