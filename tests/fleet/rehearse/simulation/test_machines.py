from __future__ import annotations

import pytest

from fleet.rehearse.simulation.machines import A4, FAMILIES, general_purpose, machines, smallest
from fleet.rehearse.simulation.pod_needs import GIB, Amounts


def amounts(vcpu: float, gib: float = 1.0, gpus: int = 0) -> Amounts:
    return Amounts(cpu_milli=int(vcpu * 1000), memory_bytes=int(gib * GIB), gpus=gpus)


def test_an_a4_holds_one_server_and_never_a_request_for_all_its_cores() -> None:
    assert amounts(160, 1000, 8).times_in(A4.allocatable) == 1
    assert amounts(224, 1000, 8).times_in(A4.allocatable) == 0
    assert A4.capacity.gpus == A4.allocatable.gpus == 8


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
