"""Boot disks and what they leave to pods, against values of GKE's autoscaler."""

from __future__ import annotations

from facts.node_room import (
    GIB,
    LARGEST_BOOT_DISK_GIB,
    SMALLEST_BOOT_DISK_GIB,
    boot_disk_gib,
    boot_disk_room,
    local_ssd_room,
)
from tests.support.rows import each_row


@each_row(
    "requested_gib, disk_gib",
    [
        # Source: reserved_test.go of GKE's autoscaler, 174 and 569 GiB; disk_size.go adds 5 %.
        (84, 174 + 8),
        (400, 569 + 28),
        # Source: disk_size_test.go, the smallest disk.
        (0.2, 100),
        (40, 100),
        (211, 373),
        # (4,000 + 100) / 0.9 and the system's 1.6 % + 4.2 GiB; at most 100 GiB are added.
        (4_000, 4_633 + 100),
    ],
)
def test_a_boot_disk_is_sized_by_the_requests(requested_gib: float, disk_gib: int) -> None:
    assert boot_disk_gib(requested_gib * GIB) == disk_gib


def test_a_boot_disk_has_room_for_what_it_was_made_for() -> None:
    for gib in range(1, 2_000, 7):
        disk = boot_disk_gib(gib * GIB)
        assert SMALLEST_BOOT_DISK_GIB <= disk <= LARGEST_BOOT_DISK_GIB
        assert boot_disk_room(disk) >= gib * GIB
    assert boot_disk_room(LARGEST_BOOT_DISK_GIB) < 0.9 * LARGEST_BOOT_DISK_GIB * GIB


@each_row("disk_gb, reserved_gib", [(375, 50), (750, 75), (1_500, 100), (12_000, 100)])
def test_local_ssds_are_reserved_by_their_number(disk_gb: int, reserved_gib: int) -> None:
    """Source: reserved.go, PredictEphemeralLocalSsdKubeReservedEphemeralStorage."""
    assert round(disk_gb * 0.9e9 / GIB - local_ssd_room(disk_gb) / GIB) == reserved_gib
