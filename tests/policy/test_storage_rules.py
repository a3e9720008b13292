from __future__ import annotations

from typing import Any

import pytest

from rule import Resource
from tests.policy.manifests import CONTAINER, POD, SPACE, changed, kubernetes, one, resource, said, server, urns

AUTOPILOT = resource("gcp:container/cluster:Cluster", "cluster", {"enableAutopilot": True, "location": "europe-west4"})


def storage_class(name: str, **parameters: str) -> Resource:
    props: dict[str, Any] = {
        "provisioner": "pd.csi.storage.gke.io",
        "parameters": {"type": "hyperdisk-ml", **parameters},
    }
    return kubernetes("storage.k8s.io/v1:StorageClass", name, props | {"reclaimPolicy": "Delete"})


def throughput(mibps: int) -> dict[str, str]:
    return {"provisioned-throughput-on-create": f"{mibps}Mi"}


READERS = storage_class("readers", **throughput(4800))
WRITERS = storage_class("writers", **throughput(400))


def claim(name: str, mode: str, class_name: str | None, size: str = "64Gi", **more: Any) -> Resource:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": size}}, **more}
    if class_name is not None:
        spec["storageClassName"] = class_name
    return kubernetes("core/v1:PersistentVolumeClaim", name, {"spec": spec})


SNAPSHOT_SOURCE = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "image"}
READER = claim("reader", "ReadOnlyMany", "readers", dataSource=SNAPSHOT_SOURCE)
WRITER = claim("writer", "ReadWriteOnce", "writers")
IMAGE = kubernetes(
    "snapshot.storage.k8s.io/v1:VolumeSnapshot",
    "image",
    {"spec": {"volumeSnapshotClassName": "images", "source": {"persistentVolumeClaimName": "writer"}}},
)
IMAGES = kubernetes(
    "snapshot.storage.k8s.io/v1:VolumeSnapshotClass",
    "images",
    {"driver": "pd.csi.storage.gke.io", "deletionPolicy": "Retain", "parameters": {"snapshot-type": "images"}},
)


def job(selectors: dict[str, str] | None = None) -> Resource:
    pod = {
        "nodeSelector": selectors
        if selectors is not None
        else {"cloud.google.com/compute-class": "Performance", "cloud.google.com/machine-family": "c4a"},
        "containers": [
            {"name": "download", "image": "git", "volumeMounts": [{"name": "weights", "mountPath": "/weights"}]}
        ],
        "volumes": [{"name": "weights", "persistentVolumeClaim": {"claimName": "writer"}}],
    }
    return kubernetes("batch/v1:Job", "download", {"spec": {"template": {"spec": pod}}})


WHOLE = (READERS, WRITERS, READER, WRITER, IMAGE, IMAGES, job(), server(), AUTOPILOT)
RULES = (
    "reader-mounts-writable",
    "writer-mounted-read-only",
    "hyperdisk-limit",
    "throughput-below-readers",
    "machine-cannot-attach-disk",
    "weights-unprotected",
    "weights-copied-by-snapshot",
)


def with_(*replaced: Resource) -> list[Resource]:
    """The whole release with some of its objects replaced by those of the same name."""
    by_name = {one.name: one for one in WHOLE} | {one.name: one for one in replaced}
    return list(by_name.values())


@pytest.mark.parametrize("rule", RULES)
def test_a_whole_release_breaks_no_rule(rule: str) -> None:
    labelled = storage_class("readers", **throughput(4800), labels="team=llm,environment=production")
    assert said(rule, *WHOLE) == []
    assert said(rule, *with_(labelled)) == []


def test_a_reader_that_attaches_its_claim_for_writing_is_found_with_the_money() -> None:
    writable = changed(server(), f"{POD}.volumes.0.persistentVolumeClaim.readOnly", False)
    text = one(said("reader-mounts-writable", *with_(writable)))
    assert (
        "Deployment server: spec.template.spec.volumes[0].persistentVolumeClaim mounts reader without readOnly" in text
    )
    assert "the other replicas wait for it for ever" in text
    assert "readOnly: true in the volume's persistentVolumeClaim" in text
    assert "$391.32 an hour (12 A4 nodes, Spot, list price)" in text


def test_a_reader_that_could_write_to_its_mount_is_found() -> None:
    writable = changed(server(), f"{CONTAINER}.volumeMounts.0.readOnly", False)
    assert "volumeMounts[0] mounts the weights of reader writable" in one(said("reader-mounts-writable", writable))


def test_the_model_tells_which_volume_holds_weights_where_another_stack_has_the_claim() -> None:
    writable = changed(server(), f"{POD}.volumes.0.persistentVolumeClaim", {"claimName": "theirs"})
    assert urns("reader-mounts-writable", writable) == ["server"]
    # A cache beside the weights may be written.
    cached = changed(writable, f"{CONTAINER}.volumeMounts.0.mountPath", "/cache")
    assert said("reader-mounts-writable", cached) == []


def test_a_writer_that_attaches_its_volume_read_only_is_found_as_a_one_way_switch() -> None:
    switched = changed(job(), f"{POD}.volumes.0.persistentVolumeClaim.readOnly", True)
    text = one(said("writer-mounted-read-only", *with_(switched)))
    assert "Job download: spec.template.spec.volumes[0].persistentVolumeClaim.readOnly is true" in text
    assert "READ_ONLY_MANY, and there is no way back" in text


def test_a_writer_whose_every_mount_is_read_only_is_found() -> None:
    idle = changed(job(), f"{CONTAINER}.volumeMounts.0.readOnly", True)
    text = one(said("writer-mounted-read-only", *with_(idle)))
    assert "every mount of writer (ReadWriteOnce) is readOnly" in text
    assert "remove readOnly from spec.template.spec.containers[0].volumeMounts[0]" in text


def test_reading_an_ordinary_disk_read_only_is_nobodys_mistake() -> None:
    switched = changed(job(), f"{POD}.volumes.0.persistentVolumeClaim.readOnly", True)
    balanced = changed(WRITERS, "parameters.type", "hyperdisk-balanced")
    assert said("writer-mounted-read-only", *with_(switched, balanced)) == []


@pytest.mark.parametrize(
    ("class_", "claim_", "words"),
    [
        (
            storage_class("readers", **throughput(300)),
            READER,
            "300 MiB/s: a 64 GiB volume needs at least 400 MiB/s",
        ),
        (
            storage_class("readers", **throughput(200_000)),
            READER,
            "a 64 GiB volume takes at most 102400 MiB/s",
        ),
        (READERS, claim("reader", "ReadOnlyMany", "readers", "2Gi"), "2 GiB: Hyperdisk ML volumes are 4 to 65536 GiB"),
        (READERS, claim("reader", "ReadWriteMany", "readers"), "spec.accessModes has ReadWriteMany"),
        (
            storage_class("readers", **throughput(4800), **{"provisioned-iops-on-create": "9000"}),
            READER,
            "parameters has provisioned-iops-on-create",
        ),
    ],
)
def test_what_google_refuses_of_a_volume_is_found_with_the_limit(
    class_: Resource, claim_: Resource, words: str
) -> None:
    assert words in one(said("hyperdisk-limit", *with_(class_, claim_)))


def test_many_readers_need_their_share_and_too_many_cannot_attach() -> None:
    few = storage_class("readers", **throughput(2000))
    assert "2000 MiB/s: above 20 readers each needs 100 MB/s: 2385 MiB/s for 25" in one(
        said("hyperdisk-limit", *with_(few, server(replicas=25)))
    )
    large = claim("reader", "ReadOnlyMany", "readers", "32Ti")
    wide = storage_class("readers", **throughput(400_000))
    assert "31 readers: a 32768 GiB volume can be attached read-only by at most 30 nodes" in one(
        said("hyperdisk-limit", *with_(wide, large, server(replicas=31)))
    )


def test_a_disk_made_without_kubernetes_keeps_to_the_same_limits() -> None:
    disk = resource(
        "gcp:compute/disk:Disk", "weights", {"type": "hyperdisk-ml", "size": 64.0, "provisionedThroughput": 100.0}
    )
    assert "Disk weights: 100 MiB/s: a 64 GiB volume needs at least 400 MiB/s" in one(said("hyperdisk-limit", disk))
    assert said("hyperdisk-limit", changed(disk, "type", "pd-ssd")) == []


def test_a_volume_too_slow_for_its_readers_is_found_with_the_throughput_that_would_do() -> None:
    slow = storage_class("readers", **throughput(400))
    text = one(said("throughput-below-readers", *with_(slow)))
    assert "12 readers share 400 MiB/s, so a full volume of 64 GiB takes 1,966 s to load; 300 s are allowed" in text
    assert "provisioned-throughput-on-create: 2700Mi" in text
    assert "$391.32 an hour (12 A4 nodes, Spot, list price), of which nothing serves for 1,966 s at each start" in text
    assert said("throughput-below-readers", *with_(slow), loadSeconds=2000) == []


@pytest.mark.parametrize(
    ("selectors", "words"),
    [
        ({"cloud.google.com/machine-family": "n2"}, "N2 machines attach no Hyperdisk ML"),
        ({"node.kubernetes.io/instance-type": "c4-standard-16"}, "C4 machines attach no Hyperdisk ML"),
        ({}, "Autopilot chooses a general-purpose node"),
    ],
)
def test_a_writer_on_a_machine_without_hyperdisk_ml_is_found(selectors: dict[str, str], words: str) -> None:
    text = one(said("machine-cannot-attach-disk", *with_(job(selectors))))
    assert words in text
    assert "mounts writer, a hyperdisk-ml disk" in text


def test_without_a_cluster_in_sight_a_writer_without_selectors_is_not_judged() -> None:
    assert said("machine-cannot-attach-disk", WRITERS, WRITER, job({})) == []


def test_a_default_class_on_an_a4_node_is_found() -> None:
    scratch = claim("reader", "ReadWriteOnce", None)
    assert "A4 machines attach Hyperdisk alone, no Persistent Disk" in one(
        said("machine-cannot-attach-disk", *with_(scratch))
    )


def test_weights_that_go_with_their_claim_are_found_in_production_alone() -> None:
    production = storage_class("readers", **throughput(4800), labels="environment=production")
    fleeting = changed(IMAGES, "deletionPolicy", "Delete")
    text = one(said("weights-unprotected", *with_(production, fleeting)))
    assert (
        "production (StorageClass readers has the label environment: production), and VolumeSnapshotClass images has"
        in text
    )
    assert "deletionPolicy Delete" in text
    assert "idle while the weights are downloaded again" in text
    assert said("weights-unprotected", *with_(fleeting)) == []
    protected = Resource(type=READER.type, name=READER.name, urn=READER.urn, props=READER.props, options=_protected())
    assert said("weights-unprotected", *with_(production, fleeting, protected)) == []


def _protected() -> Any:
    return resource("t", "n", {}, protect=True).options


def test_the_only_copy_of_weights_in_production_is_found() -> None:
    production = storage_class("readers", **throughput(4800), labels="environment=staging")
    only = claim("reader", "ReadOnlyMany", "readers")
    text = one(said("weights-unprotected", *with_(production, only), environment="live"))
    assert "it is the only copy, and StorageClass readers deletes it with the claim" in text
    assert "the stack's environment is live" in text
    assert said("weights-unprotected", *with_(production, only)) == []
    kept = changed(production, "reclaimPolicy", "Retain")
    assert said("weights-unprotected", *with_(kept, only), environment="live") == []


def test_a_reservation_that_nobody_calls_a_test_is_production() -> None:
    selectors = {"cloud.google.com/gke-accelerator": "nvidia-b200", "cloud.google.com/reservation-name": "ours"}
    reserved = changed(server(), f"{POD}.nodeSelector", selectors)
    text = one(said("weights-unprotected", *with_(reserved, changed(IMAGES, "deletionPolicy", "Delete"))))
    assert "Deployment server runs on the reservation ours, and nothing says that it is a test" in text


def test_an_unprotected_disk_of_weights_in_production_is_found() -> None:
    disk = resource("gcp:compute/disk:Disk", "w", {"type": "hyperdisk-ml", "size": 64, "labels": {"env": "prod"}})
    assert "the disk is neither protected nor kept" in one(said("weights-unprotected", disk))
    assert said("weights-unprotected", changed(disk, "deletionPolicy", "ABANDON")) == []


def test_readers_restored_from_a_snapshot_are_found() -> None:
    snapshots = changed(IMAGES, "parameters.snapshot-type", "snapshots")
    text = one(said("weights-copied-by-snapshot", *with_(snapshots)))
    assert "VolumeSnapshotClass images has snapshot-type snapshots" in text
    assert "six times an hour" in text


def test_namespaces_keep_claims_of_one_name_apart() -> None:
    other = changed(READER, "metadata.namespace", "other")
    writable = changed(server(), f"{POD}.volumes.0.persistentVolumeClaim.readOnly", False)
    pod_elsewhere = changed(writable, f"{CONTAINER}.args", ["some/model"])
    assert SPACE != "other"
    assert said("reader-mounts-writable", other, pod_elsewhere) == []
