"""`pulumi destroy` against a cluster in memory: the order, the refusals, and what is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s
import pytest

from fleet.preview.record.recording import Recording
from fleet.rehearse.api import CONFIG_MAP, PERSISTENT_VOLUME, VOLUME_SNAPSHOT_CONTENT, Kind, Manifest
from fleet.rehearse.apply.inventory import Retained
from tests.fleet.rehearse.apply.fake_cluster import FakeCluster
from tests.fleet.rehearse.apply.programs import NAMESPACE, meta, recorded
from tests.fleet.rehearse.apply.test_up import applier, config_maps, names

Options = Callable[..., pulumi.ResourceOptions]


def test_everything_goes_in_reverse_order() -> None:
    cluster = FakeCluster()
    up = applier(cluster).up(config_maps("a=1", "b=1"))
    report = applier(cluster).destroy(up.state)
    assert cluster.deleted == ["ConfigMap/b", "ConfigMap/a", f"Namespace/{NAMESPACE}"]
    assert report.failed == {}
    assert report.state.resources == {}
    assert (report.retained, report.unexpected) == ((), ())
    assert set(cluster.propagations.values()) == {"Foreground"}


def test_a_protected_resource_keeps_the_whole_stack() -> None:
    cluster = FakeCluster()
    up = applier(cluster).up(config_maps("a=1", "b=1", a={"protect": True}))
    report = applier(cluster).destroy(up.state)
    assert names(report.failed) == ["a"]
    assert "marked for protection" in next(iter(report.failed.values()))
    assert cluster.deleted == []
    assert report.state.resources.keys() == up.state.resources.keys()


def test_a_cluster_with_deletion_protection_stops_it() -> None:
    def program(options: Options) -> None:
        cluster = gcp.container.Cluster("cluster-of-ours", name="gke", deletion_protection=True)
        k8s.core.v1.ConfigMap("a", metadata=meta("a", "default"), data={}, opts=options(depends_on=[cluster]))

    cluster = FakeCluster()
    up = applier(cluster).up(recorded(program))
    report = applier(cluster).destroy(up.state)
    assert cluster.deleted == ["ConfigMap/a"]
    (text,) = report.failed.values()
    assert "cluster gke" in text
    assert "deletion_protection" in text
    assert "a" not in names(report.state.resources)
    assert "cluster-of-ours" in names(report.state.resources)


def test_a_finalizer_that_nobody_removes_is_named() -> None:
    cluster = FakeCluster()
    up = applier(cluster).up(config_maps("a=1"))
    cluster.objects[CONFIG_MAP, NAMESPACE, "a"]["metadata"]["finalizers"] = ["example.com/hold"]
    report = applier(cluster).destroy(up.state)
    (text,) = report.failed.values()
    assert text.startswith("ConfigMap/a ")
    assert " 600 s " in text
    assert "example.com/hold" in text
    assert "namespace" in names(report.skipped)


def test_a_second_destroy_goes_on_where_the_first_stopped() -> None:
    cluster = FakeCluster()
    up = applier(cluster).up(config_maps("a=1", "b=1"))
    cluster.objects[CONFIG_MAP, NAMESPACE, "a"]["metadata"]["finalizers"] = ["example.com/hold"]
    first = applier(cluster).destroy(up.state)
    del cluster.objects[CONFIG_MAP, NAMESPACE, "a"]["metadata"]["finalizers"]
    second = applier(cluster).destroy(first.state)
    assert second.failed == {}
    assert second.state.resources == {}


def test_what_is_deleted_with_another_is_not_deleted_by_itself() -> None:
    def program(options: Options) -> None:
        parent = k8s.core.v1.Namespace("space", metadata=meta("space", None), opts=options())
        k8s.core.v1.ConfigMap(
            "a", metadata=meta("a", "space"), data={}, opts=options(depends_on=[parent], deleted_with=parent)
        )

    cluster = FakeCluster()
    up = applier(cluster).up(recorded(program))
    # The namespace takes it along; here nobody does, and so it is found.
    report = applier(cluster).destroy(up.state)
    assert cluster.deleted == ["Namespace/space"]
    assert report.unexpected == ("ConfigMap/a",)
    assert [one.severity for one in report.findings] == ["error"]


def test_the_end_of_a_job_that_is_not_awaited_is_not_awaited_either() -> None:
    def program(options: Options) -> None:
        k8s.batch.v1.Job(
            "job",
            metadata=meta("job", "default", skipAwait="true"),
            spec={"template": {"spec": {"containers": []}}},
            opts=options(),
        )

    cluster = FakeCluster()
    up = applier(cluster).up(recorded(program))
    next(iter(cluster.objects.values()))["metadata"]["finalizers"] = ["example.com/hold"]
    report = applier(cluster).destroy(up.state)
    assert report.failed == {}


# What is left


def weights(reclaim: str = "Delete", policy: str = "Retain") -> Recording:
    def program(options: Options) -> None:
        k8s.core.v1.PersistentVolumeClaim(
            "claim", metadata=meta("claim", "default", skipAwait="true"), spec={}, opts=options()
        )
        k8s.apiextensions.CustomResource(
            "image",
            api_version="snapshot.storage.k8s.io/v1",
            kind="VolumeSnapshot",
            metadata=meta("image", "default"),
            spec={"policy": policy, "reclaim": reclaim},
            opts=options(),
        )

    return recorded(program)


def volume(claim: str, policy: str) -> Manifest:
    spec = {
        "claimRef": {"namespace": "default", "name": claim},
        "persistentVolumeReclaimPolicy": policy,
        "capacity": {"storage": "64Gi"},
        "csi": {"volumeHandle": "projects/p/zones/z/disks/pvc-1"},
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
    up = applier(cluster).up(weights())
    cluster.apply(content("image", "Retain"))
    cluster.apply(content("somebody-elses", "Delete"))
    report = applier(cluster).destroy(up.state)
    (kept,) = report.retained
    assert (kept.kind, kept.name, kept.usd_per_month) == ("Disk image", "image-1", None)
    assert "deletionPolicy Retain" in kept.why
    assert "64 GiB" in kept.note
    assert report.unexpected == ()


def test_a_disk_that_its_class_retains_is_listed_and_one_that_stays_by_itself_is_an_error() -> None:
    cluster = FakeCluster()
    up = applier(cluster).up(weights())
    cluster.apply(volume("claim", "Retain"))
    report = applier(cluster).destroy(up.state)
    assert [(one.kind, one.name) for one in report.retained] == [("Disk", "pvc-1")]

    cluster.apply(volume("claim", "Delete"))
    again = applier(cluster).destroy(up.state)
    assert again.unexpected == ("PersistentVolume/pv-claim",)
    assert [one.severity for one in again.findings] == ["error"]


def retained_of(make: Callable[[], Any]) -> list[Retained]:
    def program(options: Options) -> None:  # noqa: ARG001
        make()

    cluster = FakeCluster()
    up = applier(cluster).up(recorded(program))
    return list(applier(cluster).destroy(up.state).retained)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: gcp.projects.Service("api", service="compute.googleapis.com", disable_on_destroy=False),
            [("API", "compute.googleapis.com", 0.0)],
        ),
        (lambda: gcp.projects.Service("api", service="compute.googleapis.com", disable_on_destroy=True), []),
        (
            lambda: gcp.storage.Bucket("b", name="results", location="EU", force_destroy=False),
            [("Bucket", "results", None)],
        ),
        (lambda: gcp.storage.Bucket("b", name="results", location="EU", force_destroy=True), []),
        (
            lambda: gcp.compute.FutureReservation(
                "r",
                name="window",
                planning_status="SUBMITTED",
                time_window={"start_time": "x"},
                deletion_policy="ABANDON",
            ),
            [("FutureReservation", "window", None)],
        ),
        (
            lambda: gcp.compute.Network("n", name="net", opts=pulumi.ResourceOptions(retain_on_delete=True)),
            [("Network", "net", None)],
        ),
    ],
)
def test_what_google_keeps(make: Callable[[], Any], expected: list[tuple[str, str, float | None]]) -> None:
    assert [(one.kind, one.name, one.usd_per_month) for one in retained_of(make)] == expected


@pytest.mark.parametrize(("location", "priced"), [("EUROPE-WEST4", True), ("EU", False)])
def test_a_bucket_says_what_its_results_cost_where_that_is_known(location: str, priced: bool) -> None:
    (bucket,) = retained_of(lambda: gcp.storage.Bucket("b", name="results", location=location, force_destroy=False))
    assert ("$0.02 per GiB" in bucket.note) is priced


@pytest.mark.parametrize(("zone", "usd"), [("us-central1-b", 64 * 0.08), ("europe-west4-b", None)])
def test_a_disk_that_is_kept_costs_what_its_own_region_asks(zone: str, usd: float | None) -> None:
    cluster = FakeCluster()
    up = applier(cluster).up(weights())
    disk = volume("claim", "Retain")
    disk["spec"]["csi"]["volumeHandle"] = f"projects/p/zones/{zone}/disks/pvc-1"
    cluster.apply(disk)
    (kept,) = applier(cluster).destroy(up.state).retained
    assert (kept.kind, kept.name, kept.usd_per_month) == ("Disk", "pvc-1", usd)


def test_a_cluster_that_does_not_answer_is_no_empty_inventory() -> None:
    cluster = FakeCluster()
    up = applier(cluster).up(config_maps("a=1"))
    cluster.down = True
    report = applier(cluster).destroy(up.state)
    assert report.failed
    assert "connection refused" in report.unexpected[0]


def test_kinds_that_the_cluster_does_not_have_are_not_left() -> None:
    class Bare(FakeCluster):
        def list_all(self, kind: Kind, namespace: str | None = None, **selectors: str) -> list[Manifest]:
            if kind in (VOLUME_SNAPSHOT_CONTENT, PERSISTENT_VOLUME):
                from tests.fleet.rehearse.apply.fake_cluster import refuse

                refuse(404, "NotFound", "the server has no kind")
            return super().list_all(kind, namespace, **selectors)

    cluster = Bare()
    up = applier(cluster).up(config_maps("a=1"))
    assert applier(cluster).destroy(up.state).unexpected == ()
