from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rehearsal.simulation.attach_rules import AttachRequest, attaches, refuse_attachment
from rehearsal.simulation.disk_rules import Source, VolumeRequest, refuse_volume
from rehearsal.simulation.image_rules import mounted, refuse_snapshot_class

ZONE = "europe-west4-b"
ML = {"type": "hyperdisk-ml"}
MULTI = {**ML, "enable-multi-zone-provisioning": "true"}
IMAGE = Source(name="weights", kind="images", size_gib=64)
WRITER = VolumeRequest(size_gib=64, access_modes=("ReadWriteOnce",), zones=(ZONE,), parameters=ML, throughput_mibps=400)
READER = AttachRequest(
    disk="pvc-1",
    type="hyperdisk-ml",
    size_gib=64,
    throughput_mibps=2400,
    zone=ZONE,
    access_mode="READ_ONLY_MANY",
    node="node-1",
    machine_type="a4-highgpu-8g",
    node_zone=ZONE,
    read_only=True,
    readers=11,
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"access_modes": ("ReadOnlyMany",), "source": IMAGE},
        {"access_modes": ("ReadOnlyMany",)},  # an empty disk to be filled: the driver makes it for this type alone
        {"access_modes": ("ReadOnlyMany",), "source": IMAGE, "parameters": MULTI, "zones": ("europe-west4-a", ZONE)},
        {"size_gib": 4},
        {"size_gib": 64 * 1024, "throughput_mibps": 7865},
        {"throughput_mibps": 64 * 1600},
        {"throughput_mibps": None},
        {"size_gib": 128, "source": IMAGE},
        {"source": dataclasses.replace(IMAGE, kind="snapshots", restores_in_last_hour=5)},
        {"source": dataclasses.replace(IMAGE, restores_in_last_hour=500)},
    ],
)
def test_what_google_would_make_is_made(changes: dict[str, Any]) -> None:
    assert refuse_volume(dataclasses.replace(WRITER, **changes)) is None


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"size_gib": 3}, "size", "volumes are 4 to 65536 GiB"),
        ({"size_gib": 64 * 1024 + 1}, "size", "volumes are 4 to 65536 GiB"),
        ({"throughput_mibps": 399}, "throughput", "at least 400 MiB/s"),
        ({"size_gib": 10_000, "throughput_mibps": 1199}, "throughput", "at least 1200 MiB/s"),
        ({"throughput_mibps": 64 * 1600 + 1}, "throughput", "at most 102400 MiB/s"),
        ({"access_modes": ("ReadWriteMany",)}, "no-many-writers", "written by one node"),
        (
            {"parameters": {**ML, "provisioned-iops-on-create": "1000"}},
            "iops-not-settable",
            "follow from its throughput",
        ),
        (
            {"parameters": {**ML, "use-allowed-disk-topologies": "true"}},
            "unknown-parameter",
            "use-allowed-disk-topologies",
        ),
        ({"source": dataclasses.replace(IMAGE, size_gib=65)}, "smaller-than-source", "asks for 64 GiB"),
        (
            {"source": dataclasses.replace(IMAGE, kind="snapshots", restores_in_last_hour=6)},
            "snapshot-restores",
            "about 6 disks an hour",
        ),
        ({"zones": ()}, "no-zone", "names no zone"),
        ({"parameters": MULTI, "source": IMAGE}, "multi-zone-writable", "read only"),
        (
            {"parameters": {"type": "pd-balanced", "enable-multi-zone-provisioning": "true"}},
            "multi-zone-type",
            "hyperdisk-ml only",
        ),
        (
            {"parameters": {"type": "hyperdisk-balanced"}, "access_modes": ("ReadOnlyMany",)},
            "read-only-without-source",
            "empty disk that nobody can fill",
        ),
    ],
)
def test_what_google_would_not_make_is_refused_in_words(changes: dict[str, Any], code: str, says: str) -> None:
    trouble = refuse_volume(dataclasses.replace(WRITER, **changes))
    assert trouble is not None
    assert (trouble.code, trouble.event) == (code, "ProvisioningFailed")
    assert says in trouble.message
    assert trouble.shown
    assert trouble.fix.endswith(".")


def test_the_singular_of_the_topology_parameter_is_pointed_out() -> None:
    trouble = refuse_volume(dataclasses.replace(WRITER, parameters={**ML, "use-allowed-disk-topologies": "true"}))
    assert trouble is not None
    assert "use-allowed-disk-topology." in trouble.fix


def test_a_read_only_disk_of_an_image_is_read_only_from_the_start_and_an_empty_one_is_not() -> None:
    read_only = dataclasses.replace(WRITER, access_modes=("ReadOnlyMany",))
    assert dataclasses.replace(read_only, source=IMAGE).access_mode == "READ_ONLY_MANY"
    assert read_only.access_mode == "READ_WRITE_SINGLE"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"readers": 19, "throughput_mibps": 400},
        {"readers": 24},
        {"readers": 2499, "throughput_mibps": 240_000, "size_gib": 256},
        {"access_mode": "READ_WRITE_SINGLE", "read_only": False, "readers": 0, "machine_type": "c4a-standard-16"},
        {"access_mode": "READ_WRITE_SINGLE", "readers": 0},
    ],
)
def test_what_google_would_attach_is_attached(changes: dict[str, Any]) -> None:
    assert refuse_attachment(dataclasses.replace(READER, **changes)) is None


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"machine_type": "e2-standard-8"}, "machine-type", "cannot attach hyperdisk-ml"),
        ({"machine_type": "n2-standard-8"}, "machine-type", "cannot attach hyperdisk-ml"),
        ({"machine_type": "c4-standard-8"}, "machine-type", "cannot attach hyperdisk-ml"),
        ({"type": "pd-balanced", "machine_type": "c4-standard-8"}, "machine-type", "cannot attach pd-balanced"),
        ({"type": "hyperdisk-balanced", "machine_type": "e2-medium"}, "machine-type", "hyperdisk-balanced"),
        ({"node_zone": "europe-west4-a"}, "zone", "its own zone only"),
        ({"read_only": False}, "read-only-for-good", "no way back"),
        (
            {"access_mode": "READ_WRITE_SINGLE", "read_only": False, "writer": "node-2"},
            "one-writer",
            "only one node may",
        ),
        ({"access_mode": "READ_WRITE_SINGLE", "writer": "node-2"}, "one-writer", "node-2"),
        ({"readers": 2500, "throughput_mibps": 10**6}, "readers", "at most 2500 nodes"),
        ({"readers": 300, "size_gib": 2048, "throughput_mibps": 10**6}, "readers", "at most 300 nodes"),
        ({"readers": 25}, "throughput-per-reader", "2480 MiB/s for 26"),
        ({"readers": 20, "throughput_mibps": 400}, "throughput-per-reader", "2003 MiB/s for 21"),
    ],
)
def test_what_google_would_not_attach_is_refused_in_words(changes: dict[str, Any], code: str, says: str) -> None:
    trouble = refuse_attachment(dataclasses.replace(READER, **changes))
    assert trouble is not None
    assert (trouble.code, trouble.event) == (code, "FailedAttachVolume")
    assert says in trouble.message
    assert trouble.shown.startswith("rpc error: code = ")
    assert trouble.fix.endswith(".")


def test_words_that_are_not_googles_say_so() -> None:
    ours = refuse_attachment(dataclasses.replace(READER, read_only=False))
    googles = refuse_attachment(dataclasses.replace(READER, machine_type="e2-standard-8"))
    assert ours is not None
    assert googles is not None
    assert "(simulated wording)" in ours.shown
    assert "(simulated wording)" not in googles.shown


@pytest.mark.parametrize(
    ("disk", "machine", "takes"),
    [
        ("hyperdisk-ml", "a4-highgpu-8g", True),
        ("hyperdisk-ml", "a3-ultragpu-8g", True),
        ("hyperdisk-ml", "c4a-standard-4", True),
        ("hyperdisk-ml", "n4-standard-4", False),
        ("pd-balanced", "n2-standard-4", True),
        ("pd-ssd", "a4-highgpu-8g", False),
        ("hyperdisk-balanced", "c4-standard-4", True),
        ("hyperdisk-balanced", "n1-standard-4", False),
    ],
)
def test_machines_take_the_disks_of_their_generation(disk: str, machine: str, takes: bool) -> None:
    assert attaches(disk, machine) is takes


@pytest.mark.parametrize(
    ("driver", "parameters", "code"),
    [
        ("ebs.csi.aws.com", {}, "other-driver"),
        ("pd.csi.storage.gke.io", {"snapshot-type": "image"}, "snapshot-parameter"),
        ("pd.csi.storage.gke.io", {"image-familly": "weights"}, "snapshot-parameter"),
    ],
)
def test_a_snapshot_class_that_would_not_work_is_refused(driver: str, parameters: dict[str, str], code: str) -> None:
    trouble = refuse_snapshot_class(driver, "pd.csi.storage.gke.io", parameters)
    assert trouble is not None
    assert trouble.code == code


def test_the_programs_snapshot_class_is_fine() -> None:
    parameters = {"snapshot-type": "images", "image-family": "weights", "storage-locations": "europe-west4"}
    assert refuse_snapshot_class("pd.csi.storage.gke.io", "pd.csi.storage.gke.io", parameters) is None


def test_an_image_of_a_mounted_disk_says_what_google_would_do_instead() -> None:
    trouble = mounted("writer", ("writer-abc",))
    assert "Google would take the image all the same" in trouble.message
    assert "writer-abc" in trouble.shown
