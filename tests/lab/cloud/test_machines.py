from __future__ import annotations

from dataclasses import replace

import pytest

from facts.machines import MACHINES
from lab.cloud.machines import FAMILIES, general_purpose, machines, smallest, with_gpus
from lab.cloud.pod_needs import GIB, Amounts
from tests.lab.cloud.fake_world import A4


def amounts(vcpu: float, gib: float = 1.0, gpus: int = 0) -> Amounts:
    return Amounts(cpu_milli=int(vcpu * 1000), memory_bytes=int(gib * GIB), gpus=gpus)


def test_an_a4_holds_one_server_and_never_a_request_for_all_its_cores() -> None:
    assert amounts(160, 1000, 8).times_in(A4.allocatable) == 1
    assert amounts(224, 1000, 8).times_in(A4.allocatable) == 0
    assert A4.capacity.gpus == A4.allocatable.gpus == 8


def test_local_ssd_is_the_pods_disk_where_it_is_there_and_the_boot_disk_elsewhere() -> None:
    disks = {
        (name, wanted): with_gpus(name, local_ssd=wanted).trimmed(60 * GIB).disk_gib
        for name in ("g2-standard-12", "a3-highgpu-1g")
        for wanted in (False, True)
    }
    assert list(disks.values()) == [136, 375, 750, 750]
    small, large = with_gpus("g2-standard-12", boot_disk_gib=200), with_gpus("a3-highgpu-1g", boot_disk_gib=200)
    assert (small.disk_gib, large.disk_gib) == (200, 750)
    assert small.trimmed(60 * GIB) == small  # a size that a ComputeClass names stays


def test_a_trimmed_boot_disk_holds_the_pods_that_it_was_made_for() -> None:
    for gib in (1, 40, 60, 211, 1_000):
        asked = replace(amounts(4, 8, 1), ephemeral_bytes=gib * GIB)
        assert asked.times_in(with_gpus("g2-standard-12").trimmed(gib * GIB).allocatable) == 1, gib
    writer = smallest("c4a", replace(amounts(4, 16), ephemeral_bytes=2 * GIB))
    assert writer is not None
    assert writer.disk_gib == 100


@pytest.mark.parametrize("machine_type", sorted(MACHINES))
def test_every_machine_with_gpus_holds_a_pod_with_all_of_them(machine_type: str) -> None:
    machine = with_gpus(machine_type)
    assert amounts(machine.vcpu / 2, machine.memory_gib / 2, machine.gpus).times_in(machine.allocatable) == 1
    assert amounts(machine.vcpu, machine.memory_gib / 2, machine.gpus).times_in(machine.allocatable) == 0


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_machine_leaves_less_to_pods_than_it_has(family: str) -> None:
    for machine in machines(family):
        whole, left = machine.capacity, machine.allocatable
        assert left.cpu_milli < whole.cpu_milli
        assert left.memory_bytes < whole.memory_bytes
        assert left.ephemeral_bytes < whole.ephemeral_bytes


@pytest.mark.parametrize(
    ("family", "vcpu", "gib", "expected"),
    [
        ("c4a", 4, 16, "c4a-standard-8"),  # the writer: four cores are not all left of a four-core machine
        ("c4", 14, 48, "c4-standard-16"),
        ("c4", 14, 20, "c4-highcpu-16"),
        ("c4", 300, 48, None),
        ("n4", 1, 1, "n4-highcpu-2"),
    ],
)
def test_the_smallest_machine_that_holds_the_pod_is_picked(
    family: str, vcpu: float, gib: float, expected: str | None
) -> None:
    found = smallest(family, amounts(vcpu, gib))
    assert (found.name if found else None) == expected


def test_a_machine_type_that_was_asked_for_is_kept() -> None:
    found = smallest("c4", amounts(1), machine_type="c4-standard-48")
    assert found is not None
    assert found.name == "c4-standard-48"


@pytest.mark.parametrize(
    ("vcpu", "gib", "pods", "expected"),
    [
        (0.5, 2, 1, "e2-standard-4"),
        (0.5, 2, 6, "e2-standard-4"),
        (0.5, 2, 7, "e2-standard-8"),
        (10, 16, 1, "e2-standard-16"),
        (10, 16, 3, "e2-standard-16"),
        (20, 16, 1, "e2-standard-32"),
        (40, 16, 1, None),
    ],
)
def test_small_pods_share_a_moderate_general_purpose_machine(
    vcpu: float, gib: float, pods: int, expected: str | None
) -> None:
    found = general_purpose(amounts(vcpu, gib), pods)
    assert (found.name if found else None) == expected


def test_arm_families_and_boot_disks_are_what_google_says() -> None:
    assert A4.boot_disk == "hyperdisk-balanced"
    assert {machines(family)[0].arch for family in ("c4a", "n4a")} == {"arm64"}
    assert machines("e2")[0].boot_disk == "pd-balanced"
    assert machines("c4")[0].arch == "amd64"
