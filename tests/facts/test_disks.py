"""Tests of Hyperdisk ML's limits."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import disks


def test_a_volume_for_the_record_fleet_is_fine() -> None:
    assert disks.check_volume(size_gib=128, throughput_mibps=2400, readers=12) == ()


@pytest.mark.parametrize(("size_gib", "nearest"), [(3, 4), (65_537, 65_536)])
def test_a_size_outside_the_limits_is_found_with_the_nearest_one(size_gib: int, nearest: int) -> None:
    (finding,) = disks.check_volume(size_gib=size_gib, throughput_mibps=1200)
    assert (finding.field, finding.value) == ("size_gib", size_gib)
    assert finding.remedy == f"set the size to {nearest} GiB"


@pytest.mark.parametrize(("size_gib", "floor"), [(64, 400), (3333, 400), (10_000, 1200), (65_536, 7864.32)])
def test_the_least_throughput_grows_with_the_size(size_gib: int, floor: float) -> None:
    assert disks.throughput_floor_mibps(size_gib) == pytest.approx(floor)


@pytest.mark.parametrize(
    ("size_gib", "ceiling"), [(4, 6400), (1310, 2_096_000), (1311, 2_097_152), (65_536, 2_097_152)]
)
def test_the_most_throughput_is_1600_per_gib_up_to_the_cap(size_gib: int, ceiling: int) -> None:
    assert disks.throughput_ceiling_mibps(size_gib) == ceiling


def test_too_little_throughput_names_the_floor() -> None:
    (finding,) = disks.check_volume(size_gib=65_536, throughput_mibps=400)
    assert finding.remedy == "set the throughput to 7865 MiB/s or more"


def test_too_much_throughput_names_the_ceiling_and_the_size_that_would_do() -> None:
    (finding,) = disks.check_volume(size_gib=4, throughput_mibps=8000)
    assert finding.remedy == "set the throughput to 6400 MiB/s or less, or the size to 5 GiB"


def test_more_than_20_readers_need_a_share_of_throughput_each() -> None:
    assert disks.throughput_for_readers_mibps(20) == 0
    assert disks.check_volume(size_gib=128, throughput_mibps=400, readers=20) == ()
    (finding,) = disks.check_volume(size_gib=128, throughput_mibps=400, readers=21)
    assert "21" in finding.message
    assert finding.remedy == "set the throughput to 420 MiB/s or more"


@pytest.mark.parametrize(
    ("size_gib", "readers"), [(4, 2500), (256, 2500), (257, 600), (1024, 600), (2048, 300), (16_384, 128), (16_385, 30)]
)
def test_larger_volumes_take_fewer_readers(size_gib: int, readers: int) -> None:
    assert disks.max_readers(size_gib) == readers
    throughput_mibps = disks.throughput_ceiling_mibps(size_gib)
    findings = disks.check_volume(size_gib=size_gib, throughput_mibps=throughput_mibps, readers=readers + 1)
    assert findings[-1].field == "readers"
    assert f"at most {readers} nodes" in findings[-1].message


def test_the_writer_machine_must_be_one_that_attaches_the_volume() -> None:
    assert not disks.cannot_attach(disks.TYPE, "c4a")
    assert not disks.cannot_attach(disks.TYPE, "a4")
    assert disks.cannot_attach(disks.TYPE, "c4")
    assert disks.cannot_attach(disks.TYPE, "n2")


@given(size_gib=st.integers(4, 65_536), readers=st.integers(0, 3000))
def test_some_throughput_always_fits_the_size(size_gib: int, readers: int) -> None:
    assert disks.throughput_floor_mibps(size_gib) <= disks.throughput_ceiling_mibps(size_gib)
    floor_mibps = ceil(disks.throughput_floor_mibps(size_gib))
    assert disks.check_volume(size_gib=size_gib, throughput_mibps=floor_mibps, readers=min(readers, 20)) == ()
