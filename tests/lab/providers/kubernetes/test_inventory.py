"""What remains after a destroy, and what it costs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lab.control_plane.api import PERSISTENT_VOLUME, VOLUME_SNAPSHOT_CONTENT, Kind, Manifest
from lab.engine.state import StackState, parsed
from lab.providers.kubernetes.inventory import account, findings_of
from lab.providers.kubernetes.waiter import Waiter
from lab.results.clock import Clock
from lab.results.result import Retained
from tests.lab.providers.kubernetes.fake_cluster import FakeCluster, refuse

NOTHING = StackState(resources=(), pending={})


def state(*resources: dict[str, Any]) -> StackState:
    """A stack's state with these resources."""
    usual = {"custom": True, "id": "id", "inputs": {}, "outputs": {}}
    listed = [
        {**usual, "urn": f"urn:pulumi:dev::p::{resource.pop('type')}::{resource['id']}", **resource}
        for resource in resources
    ]
    return parsed({"deployment": {"resources": listed}})


def weights() -> StackState:
    return state(
        {"type": "kubernetes:core/v1:PersistentVolumeClaim", "id": "default/claim"},
        {"type": "kubernetes:snapshot.storage.k8s.io/v1:VolumeSnapshot", "id": "default/image"},
    )


def destroyed(cluster: FakeCluster, before: StackState) -> tuple[tuple[Retained, ...], tuple[str, ...]]:
    api: Any = cluster
    stop = threading.Event()
    with Waiter(api, Clock(60_000), stop, 0.05) as waiter:
        return account(api, waiter, before, NOTHING)


def volume(claim: str, policy: str, zone: str = "z") -> Manifest:
    spec = {
        "claimRef": {"namespace": "default", "name": claim},
        "persistentVolumeReclaimPolicy": policy,
        "capacity": {"storage": "64Gi"},
        "csi": {"volumeHandle": f"projects/p/zones/{zone}/disks/pvc-1"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"pv-{claim}"}, "spec": spec}


def content(snapshot: str, policy: str) -> Manifest:
    return {
        "apiVersion": VOLUME_SNAPSHOT_CONTENT.api_version,
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": f"content-{snapshot}"},
        "spec": {"volumeSnapshotRef": {"namespace": "default", "name": snapshot}, "deletionPolicy": policy},
        "status": {"snapshotHandle": "projects/p/global/images/image-1", "restoreSize": 64 * 2**30},
    }


def test_images_that_their_class_retains_are_listed_and_without_a_price_where_none_is_known() -> None:
    cluster = FakeCluster()
    cluster.apply(content("image", "Retain"))
    cluster.apply(content("somebody-elses", "Delete"))
    (kept,), unexpected = destroyed(cluster, weights())
    assert (kept.kind, kept.name, kept.usd_per_month) == ("Disk image", "image-1", None)
    assert "deletionPolicy Retain" in kept.why
    assert "64 GiB" in kept.note
    assert unexpected == ()


def test_a_disk_that_its_class_retains_is_listed_and_one_that_stays_by_itself_is_an_error() -> None:
    cluster = FakeCluster()
    cluster.apply(volume("claim", "Retain"))
    retained, _ = destroyed(cluster, weights())
    assert [(one.kind, one.name) for one in retained] == [("Disk", "pvc-1")]
    cluster.apply(volume("claim", "Delete"))
    _, unexpected = destroyed(cluster, weights())
    assert unexpected == ("PersistentVolume/pv-claim",)
    assert [one.severity for one in findings_of(unexpected)] == ["error"]


def test_an_object_that_was_to_go_and_did_not_is_unexpected_and_one_that_the_program_retains_is_not() -> None:
    cluster = FakeCluster()
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}})
    one = {"type": "kubernetes:core/v1:ConfigMap", "id": "default/a"}
    assert destroyed(cluster, state(dict(one)))[1] == ("ConfigMap/a",)
    (kept,), unexpected = destroyed(cluster, state({**one, "retainOnDelete": True}))
    assert (kept.kind, kept.name, kept.why) == ("ConfigMap", "a", "retain_on_delete")
    assert unexpected == ()


@pytest.mark.parametrize(
    ("type_", "inputs", "expected"),
    [
        ("projects/service:Service", {"service": "a.googleapis.com", "disableOnDestroy": False}, ("API", 0.0)),
        ("projects/service:Service", {"service": "a.googleapis.com", "disableOnDestroy": True}, None),
        (
            "storage/bucket:Bucket",
            {"name": "a.googleapis.com", "location": "EU", "forceDestroy": False},
            ("Bucket", None),
        ),
        ("storage/bucket:Bucket", {"name": "a.googleapis.com", "location": "EU", "forceDestroy": True}, None),
    ],
)
def test_what_google_keeps(type_: str, inputs: dict[str, Any], expected: tuple[str, float | None] | None) -> None:
    retained, _ = destroyed(FakeCluster(), state({"type": f"gcp:{type_}", "id": "x", "inputs": inputs}))
    found = [(one.kind, one.name, one.usd_per_month) for one in retained]
    assert found == ([] if expected is None else [(expected[0], "a.googleapis.com", expected[1])])


@pytest.mark.parametrize(("location", "priced"), [("EUROPE-WEST4", True), ("EU", False)])
def test_a_bucket_says_what_its_results_cost_where_that_is_known(location: str, priced: bool) -> None:
    inputs = {"name": "results", "location": location, "forceDestroy": False}
    (bucket,), _ = destroyed(FakeCluster(), state({"type": "gcp:storage/bucket:Bucket", "id": "x", "inputs": inputs}))
    assert ("$0.02 per GiB" in bucket.note) is priced


@pytest.mark.parametrize(("zone", "usd"), [("us-central1-b", 64 * 0.08), ("europe-west4-b", None)])
def test_a_disk_that_is_kept_costs_what_its_own_region_asks(zone: str, usd: float | None) -> None:
    cluster = FakeCluster()
    cluster.apply(volume("claim", "Retain", zone))
    (kept,), _ = destroyed(cluster, weights())
    assert (kept.kind, kept.name, kept.usd_per_month) == ("Disk", "pvc-1", usd)


def test_a_cluster_that_does_not_answer_is_no_empty_inventory() -> None:
    cluster = FakeCluster()
    cluster.down = True
    _, unexpected = destroyed(cluster, weights())
    assert "connection refused" in unexpected[0]


def test_kinds_that_the_cluster_does_not_have_are_not_left() -> None:
    class Bare(FakeCluster):
        def list_all(self, kind: Kind, namespace: str | None = None, **selectors: str) -> list[Manifest]:
            if kind in (VOLUME_SNAPSHOT_CONTENT, PERSISTENT_VOLUME):
                refuse(404, "NotFound", "the server has no kind")
            return super().list_all(kind, namespace, **selectors)

    assert destroyed(Bare(), weights()) == ((), ())
