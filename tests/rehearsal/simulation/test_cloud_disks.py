from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from rehearsal.simulation.cloud_disks import CloudDisks, Image
from rehearsal.simulation.disk_rules import DiskTrouble, VolumeRequest

ZONE = "europe-west4-b"
ML = {"type": "hyperdisk-ml"}


class Cloud:
    def __init__(self) -> None:
        self.now = 0.0
        self.disks = CloudDisks(lambda: self.now)

    def make(
        self, name: str = "disk", *, source: str = "", throughput: int = 400, size: int = 64, **more: str
    ) -> DiskTrouble | None:
        found = self.disks.source(source) if source else None
        zones = tuple(more.pop("zones", ZONE).split(","))
        asked = VolumeRequest(
            size_gib=size,
            access_modes=("ReadOnlyMany",) if source else ("ReadWriteOnce",),
            zones=zones,
            parameters={**ML, **more},
            throughput_mibps=throughput,
            source=found,
        )
        return self.disks.make(name, asked, claim=f"vllm/{name}", is_retained=False)

    def attach(
        self,
        node: str,
        name: str = "disk",
        *,
        read_only: bool = False,
        machine: str = "c4a-standard-8",
        zone: str = ZONE,
    ) -> str:
        trouble = self.disks.attach(name, node=node, machine_type=machine, node_zone=zone, read_only=read_only)
        return trouble.code if trouble else ""

    def image(self, name: str = "image", kind: str = "images", *, is_retained: bool = True) -> None:
        self.disks.take_image(
            Image(
                name=name,
                kind="images" if kind == "images" else "snapshots",
                size_gib=64,
                location="europe-west4",
                family="weights",
                claim="vllm/disk",
                is_retained=is_retained,
                written_by=("node-1",),
            )
        )


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


def test_a_disk_is_written_by_one_node_after_the_other(cloud: Cloud) -> None:
    cloud.make()
    assert cloud.attach("first") == ""
    assert cloud.attach("second") == "one-writer"
    assert cloud.disks.detach("disk", "first")
    assert cloud.attach("second") == ""
    volume = cloud.disks.volume("disk")
    assert volume is not None
    assert volume.written_by == ["first", "second"]


def test_attached_read_only_a_disk_can_never_be_written_again(cloud: Cloud) -> None:
    cloud.make()
    cloud.now = 60.0
    assert cloud.attach("reader", read_only=True) == ""
    cloud.disks.detach("disk", "reader")
    assert cloud.attach("writer") == "read-only-for-good"
    volume = cloud.disks.volume("disk")
    assert volume is not None
    assert volume.access_modes == [(0.0, "READ_WRITE_SINGLE"), (60.0, "READ_ONLY_MANY")]


def test_a_disk_with_a_writer_is_not_switched_under_it(cloud: Cloud) -> None:
    cloud.make()
    cloud.attach("writer")
    assert cloud.attach("reader", read_only=True) == "one-writer"
    volume = cloud.disks.volume("disk")
    assert volume is not None
    assert volume.access_mode == "READ_WRITE_SINGLE"


def test_the_twenty_first_reader_needs_more_throughput(cloud: Cloud) -> None:
    cloud.image()
    cloud.make("slow", source="image", throughput=400)
    codes = [cloud.attach(f"node-{number}", "slow", read_only=True, machine="a4-highgpu-8g") for number in range(21)]
    assert codes == [""] * 20 + ["throughput-per-reader"]
    cloud.disks.detach("slow", "node-3")
    assert cloud.attach("node-20", "slow", read_only=True, machine="a4-highgpu-8g") == ""


def test_many_threads_do_not_get_past_the_limit(cloud: Cloud) -> None:
    cloud.image()
    cloud.make("slow", source="image")
    with ThreadPoolExecutor(16) as pool:
        codes = list(pool.map(lambda number: cloud.attach(f"n{number}", "slow", read_only=True), range(100)))
    assert codes.count("") == 20


def test_readers_are_counted_in_each_zone_because_each_has_its_own_disk(cloud: Cloud) -> None:
    cloud.image()
    zones = "europe-west4-a,europe-west4-b"
    cloud.make("both", source="image", zones=zones, **{"enable-multi-zone-provisioning": "true"})
    for zone in zones.split(","):
        assert {cloud.attach(f"{zone}-{number}", "both", read_only=True, zone=zone) for number in range(20)} == {""}
    assert cloud.attach("far", "both", read_only=True, zone="europe-west4-c") == "zone"


def test_a_node_that_has_a_disk_may_ask_again(cloud: Cloud) -> None:
    cloud.make()
    assert [cloud.attach("node"), cloud.attach("node")] == ["", ""]
    volume = cloud.disks.volume("disk")
    assert volume is not None
    assert volume.written_by == ["node"]


def test_an_attached_disk_is_not_deleted(cloud: Cloud) -> None:
    cloud.make()
    cloud.attach("node")
    assert not cloud.disks.delete("disk")
    cloud.disks.detach("disk", "node")
    assert cloud.disks.delete("disk")
    assert cloud.attach("node") == "no-disk"


def test_a_snapshot_gives_six_disks_an_hour_and_an_image_any_number(cloud: Cloud) -> None:
    cloud.image("slow", "snapshots")
    cloud.image("fast", "images")
    made = [cloud.make(f"s{number}", source="slow") for number in range(7)]
    assert [trouble.code if trouble else "" for trouble in made] == [""] * 6 + ["snapshot-restores"]
    assert all(cloud.make(f"i{number}", source="fast") is None for number in range(20))
    cloud.now = 3601.0
    assert cloud.make("later", source="slow") is None


def test_making_a_disk_twice_makes_one(cloud: Cloud) -> None:
    cloud.make()
    cloud.attach("node")
    assert cloud.make() is None
    volume = cloud.disks.volume("disk")
    assert volume is not None
    assert list(volume.attached) == ["node"]


def test_the_inventory_lists_each_zones_disk_and_every_image(cloud: Cloud) -> None:
    cloud.image()
    multi = {"enable-multi-zone-provisioning": "true"}
    cloud.make("both", source="image", zones="europe-west4-a,europe-west4-b", throughput=2400, **multi)
    listed = [(one.kind, one.name, one.location, one.size_gib, one.throughput_mibps) for one in cloud.disks.inventory()]
    assert listed == [
        ("disk", "both", "europe-west4-a", 64, 2400),
        ("disk", "both", "europe-west4-b", 64, 2400),
        ("image", "image", "europe-west4", 64, 0),
    ]
    cloud.disks.delete("both")
    cloud.disks.delete_image("image")
    assert cloud.disks.inventory() == ()


def test_a_class_without_throughput_gets_the_least_there_is(cloud: Cloud) -> None:
    asked = VolumeRequest(size_gib=10_000, access_modes=("ReadWriteOnce",), zones=(ZONE,), parameters=ML)
    cloud.disks.make("plain", asked, claim="vllm/plain", is_retained=True)
    (item,) = cloud.disks.inventory()
    assert (item.throughput_mibps, item.is_retained) == (1200, True)
