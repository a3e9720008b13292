"""The Kubernetes provider on a real API server: ownership, dry runs, strict fields, waits for real controllers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from fleet.preview.record.wire import decode_struct
from lab.control_plane.api import DEPLOYMENT, NAMESPACE, NODE, ClusterApi, Manifest
from lab.providers.kubernetes.provider import Kubernetes
from tests.lab.providers.calls import Diff, RefusedCallError, Resource, kubernetes

if TYPE_CHECKING:
    from lab.control_plane.cluster import ControlPlane

pytestmark = pytest.mark.slow

NODES = ("provider-node-0", "provider-node-1")
SELECTOR = {"provider-test": "yes"}
"""Label of this module's nodes: its pods run there and nowhere else, and nobody else's do."""
CAPACITY = {"cpu": "224", "memory": "3968Gi", "pods": "64", "nvidia.com/gpu": "8"}
SPACE = "provider-test"


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[ClusterApi]:
    for name in NODES:
        annotations = {"kwok.x-k8s.io/node": "fake"}
        metadata = {"name": name, "annotations": annotations, "labels": SELECTOR}
        status = {"capacity": CAPACITY, "allocatable": CAPACITY}
        control_plane.api.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
    control_plane.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    yield control_plane.api
    control_plane.api.delete(NAMESPACE, SPACE)
    for name in NODES:
        control_plane.api.delete(NODE, name)


@pytest.fixture
def provider(api: ClusterApi) -> Kubernetes:
    return kubernetes(api, speed=60, slack_seconds=60)


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": SPACE, **more}


def deployment(
    name: str, replicas: int | None = 1, image: str = "example.com/image:1", gpus: int = 0
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": image}
    if gpus:
        amount = {"nvidia.com/gpu": str(gpus)}
        container["resources"] = {"limits": amount, "requests": amount}
    pod = {"containers": [container], "nodeSelector": SELECTOR}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return {"metadata": meta(name), "spec": spec if replicas is None else {**spec, "replicas": replicas}}


def server(provider: Kubernetes, name: str) -> Resource:
    return Resource(provider, "kubernetes:apps/v1:Deployment", name)


def owners(live: Manifest | None) -> list[tuple[str, str]]:
    assert live is not None
    found = [(entry["manager"], entry["operation"]) for entry in live["metadata"]["managedFields"]]
    return [one for one in found if one[0].startswith("pulumi")]


def test_a_deployment_is_waited_for_owned_updated_read_and_deleted(api: ClusterApi, provider: Kubernetes) -> None:
    one = server(provider, "life")
    previewed = one.create(deployment("life", 2), preview=True)
    assert previewed["spec"]["progressDeadlineSeconds"] == 600, "the API server's own default"
    assert api.get(DEPLOYMENT, "life", SPACE) is None
    assert one.create(deployment("life", 2))["status"]["readyReplicas"] == 2
    assert owners(api.get(DEPLOYMENT, "life", SPACE)) == [("pulumi-kubernetes", "Update")]
    assert one.diff(deployment("life", 2)).changes == Diff.DIFF_NONE
    assert decode_struct(one.read().inputs) == one.inputs

    changed = deployment("life", 2, "example.com/image:2")
    assert one.update(changed, preview=True)["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":2")
    assert one.update(changed)["status"]["updatedReplicas"] == 2
    ((manager, operation),) = owners(api.get(DEPLOYMENT, "life", SPACE))
    assert manager.startswith("pulumi-kubernetes-")
    assert operation == "Apply"
    one.delete()
    assert api.get(DEPLOYMENT, "life", SPACE) is None
    assert provider.observed.findings == []


def test_pods_that_the_quota_refuses_are_explained(api: ClusterApi) -> None:
    provider = kubernetes(api, speed=60, slack_seconds=6)
    quota = Resource(provider, "kubernetes:core/v1:ResourceQuota", "quota")
    quota.create({"metadata": meta("gpu"), "spec": {"hard": {"requests.nvidia.com/gpu": "8"}}})
    one = server(provider, "over")
    with pytest.raises(RefusedCallError, match=r"1 of 2 pods ready.*exceeded quota: gpu"):
        one.create(deployment("over", 2, gpus=8), timeout=120)
    (finding,) = provider.observed.findings
    assert "quota" in finding.write
    assert one.update(deployment("over", 1, gpus=8))["status"]["readyReplicas"] == 1
    one.delete()
    quota.delete()


def test_a_misspelt_field_is_refused_and_named_already_by_a_preview(api: ClusterApi, provider: Kubernetes) -> None:
    wrong = deployment("wrong")
    wrong["spec"]["replcas"] = 3
    for preview in (True, False):
        with pytest.raises(RefusedCallError, match=r"spec\.replcas"):
            server(provider, "wrong").create(wrong, preview=preview)
    assert api.get(DEPLOYMENT, "wrong", SPACE) is None


def test_two_stacks_that_want_one_field_conflict(api: ClusterApi, provider: Kubernetes) -> None:
    def owned(by: str) -> dict[str, Any]:
        return {"metadata": meta("shared", labels={"owner": by}), "data": {}}

    first = Resource(provider, "kubernetes:core/v1:ConfigMap", "shared", "one")
    first.create(owned("one"))
    with pytest.raises(RefusedCallError, match='configmaps "shared" already exists'):
        Resource(provider, "kubernetes:core/v1:ConfigMap", "shared", "two").create(owned("two"))
    upsert = kubernetes(api, speed=60, upsert=True)
    with pytest.raises(RefusedCallError, match=r"\.metadata\.labels\.owner"):
        Resource(upsert, "kubernetes:core/v1:ConfigMap", "shared", "two").create(owned("two"))
    first.delete()


def test_replicas_left_to_others_stay_and_are_taken_back_only_without_a_conflict(
    api: ClusterApi, provider: Kubernetes
) -> None:
    def by_hand(replicas: int) -> None:
        api.patch(DEPLOYMENT, "scaled", SPACE, {"spec": {"replicas": replicas}}, subresource="scale")

    one = server(provider, "scaled")
    one.create(deployment("scaled", 1))
    one.update(deployment("scaled", None), ignored=("spec.replicas",))
    by_hand(2)
    one.update(deployment("scaled", None, "example.com/image:2"), ignored=("spec.replicas",))
    live = api.get(DEPLOYMENT, "scaled", SPACE)
    assert live is not None
    assert live["spec"]["replicas"] == 2
    with pytest.raises(RefusedCallError, match='subresource "scale"'):
        one.update(deployment("scaled", 1, "example.com/image:2"))
    by_hand(1)
    one.update(deployment("scaled", 1, "example.com/image:2"))
    one.delete()
