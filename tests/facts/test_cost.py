"""Tests of bills."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import cost, prices
from facts.cost import Bill, FleetShape, LineItem, WeightsShape, bill, format_indication, priority_prices
from facts.disks import throughput_for_readers_mibps
from facts.machines import find

SPOT = FleetShape(nodes=12, region="europe-west4", capacity="spot")
FULL = FleetShape(
    nodes=8,
    region="us-central1",
    capacity="cud-1y",
    weights=WeightsShape(size_gib=128, throughput_mibps=2400, copies=2, image_gib=128),
    benchmark_machine_type="c4-standard-16",
    epp_vcpus=10,
    load_balancers=1,
    nat_gateways=1,
    registry_gib=20,
    bucket_gib=5,
    download_gib=28,
)


def line(of: Bill, id_: str) -> LineItem:
    return next(item for item in of.items if item.id == id_)


def test_a_bill_takes_the_newest_price_of_its_own_region() -> None:
    nodes = bill(SPOT).nodes
    assert nodes.usd_per_hour == pytest.approx(12 * 34.0736)
    assert nodes.price is not None
    assert (nodes.price.region, nodes.price.date) == ("europe-west4", "2026-07-03")
    # Two sources tell of us-central1; the catalogue of 2026-07-30 is the newer one.
    american = bill(replace(SPOT, region="us-central1")).nodes
    assert american.usd_per_hour == pytest.approx(12 * 39.6336)


@pytest.mark.parametrize(
    ("capacity", "usd"), [("flex-start", 64.44), ("calendar", 90.216), ("cud-1y", 88.9272), ("cud-3y", 56.7072)]
)
def test_every_way_that_the_americas_have_a_price_for_is_priced_there(capacity: str, usd: float) -> None:
    assert bill(replace(SPOT, region="us-central1", capacity=capacity)).nodes.unit_price_usd == usd


def test_a_price_of_another_region_is_told_and_never_used() -> None:
    nodes = bill(replace(SPOT, capacity="cud-1y")).nodes
    assert nodes.usd_per_hour is None
    assert nodes.elsewhere is not None
    assert nodes.elsewhere.region == "us-east1"  # nearer than us-central1, which has the same price
    assert nodes.indicated_usd_per_hour == pytest.approx(12 * 88.9272)
    in_class = replace(
        SPOT, capacity="compute-class", machine=find("a3-highgpu-8g"), region="europe-west12", reserved_nodes=15
    )
    idle = line(bill(in_class), "reservation")
    assert idle.usd_per_hour is None
    assert idle.elsewhere is not None
    assert idle.indicated_usd_per_hour == pytest.approx(3 * idle.elsewhere.usd)
    volume = WeightsShape(size_gib=64, throughput_mibps=4800)
    assert line(bill(replace(SPOT, weights=volume)), "hyperdisk-ml-capacity").usd_per_hour is None
    there = bill(replace(SPOT, weights=volume))
    assert there.usd_per_hour_known == bill(SPOT).usd_per_hour_known
    assert format_indication(there.residual_items) == "2 of them about $0.80 in us-central1"
    priced = line(bill(replace(SPOT, region="us-central1", weights=volume)), "hyperdisk-ml-capacity")
    assert priced.indicated_usd_per_hour is None
    assert priced.usd_per_month == pytest.approx(64 * 0.08)


def test_the_price_of_thirty_readers_fell_to_a_fifth_in_august_2026() -> None:
    floor = throughput_for_readers_mibps(30)
    shape = WeightsShape(size_gib=64, throughput_mibps=floor)
    throughput = line(bill(replace(SPOT, region="us-central1", weights=shape)), "hyperdisk-ml-throughput")
    assert (floor, throughput.usd_per_month) == (600, pytest.approx(72.0))


def test_a_million_tokens_cost_less_than_the_article_rounds_to() -> None:
    million = bill(replace(SPOT, usd_per_node_hour=88.93, cluster=False)).usd_per_million_tokens(1_103_941)
    assert million == pytest.approx(0.2685, abs=0.0001)
    spot = bill(replace(SPOT, usd_per_node_hour=32.61, cluster=False)).usd_per_million_tokens(1_103_941)
    assert spot == pytest.approx(0.0985, abs=0.0001)


@pytest.mark.parametrize("capacity", ["flex-start", "cud-1y", "reservation", "compute-class"])
def test_capacity_without_a_price_is_unknown_with_its_reason_never_zero(capacity: str) -> None:
    answer = bill(replace(SPOT, capacity=capacity))
    nodes = line(answer, "nodes")
    assert nodes.usd_per_hour is None
    assert nodes.reason
    assert nodes.name in answer.unknown
    assert answer.usd_per_hour is None
    assert answer.usd_per_million_tokens(1_103_941) is None
    assert cost.node_price(capacity, "europe-west4") is None


def test_a_compute_class_is_headlined_by_its_steps_and_not_by_what_stands_around() -> None:
    answer = bill(replace(SPOT, capacity="compute-class", priorities=("spot", "flex-start"), region="us-east4"))
    assert answer.nodes.steps == {"spot": 32.6064, "flex-start": 64.44}
    headline = answer.format_hourly_total()
    assert headline.startswith("12 nodes: spot $391.28, flex-start $773.28; ")
    assert headline.endswith("at least $0.10 an hour")
    assert "reservation" not in headline


@pytest.mark.parametrize("priority", ["flex-start", "spot"])
def test_a_compute_class_of_one_priority_has_the_price_of_that_mode(priority: str) -> None:
    alone = bill(replace(SPOT, capacity="compute-class", priorities=(priority,), region="us-east4"))
    assert alone.nodes == bill(replace(SPOT, capacity=priority, region="us-east4")).nodes
    assert alone.nodes.unit_price_usd


def test_a_price_stated_in_the_stack_file_replaces_the_list_price() -> None:
    nodes = line(bill(replace(SPOT, capacity="flex-start", usd_per_node_hour=50.0)), "nodes")
    assert nodes.usd_per_hour == pytest.approx(600)
    assert (nodes.source, nodes.price, nodes.reason) == (None, None, None)


def test_a_free_price_is_a_price() -> None:
    answer = bill(replace(SPOT, capacity="reservation", usd_per_node_hour=0.0, cluster=False))
    assert line(answer, "nodes").usd_per_hour == 0
    assert answer.usd_per_million_tokens(1000) == 0


def test_a_paused_spot_fleet_pays_for_no_node() -> None:
    paused = bill(replace(SPOT, nodes=0))
    assert paused.usd_per_hour_known == pytest.approx(0.10)
    assert [item.id for item in bill(SPOT).residual_items] == ["cluster-fee"]
    assert bill(SPOT).residual_usd_per_hour == pytest.approx(0.10)


def test_a_paused_committed_fleet_pays_for_its_nodes_all_the_same() -> None:
    assert bill(FULL).residual_usd_per_hour > 8 * 88.9272
    paused = bill(FleetShape(nodes=0, region="us-east1", capacity="cud-1y", committed_nodes=8, cluster=False))
    assert paused.usd_per_hour_known == pytest.approx(8 * 88.9272)


def test_committed_nodes_do_not_count_for_spot() -> None:
    assert bill(replace(SPOT, nodes=0, committed_nodes=8, cluster=False)).usd_per_hour_known == 0


def test_every_part_of_a_stack_is_on_the_bill() -> None:
    assert [item.id for item in bill(FULL).items] == [
        "nodes",
        "cluster-fee",
        "autopilot-premium",
        "boot-disk",
        "hyperdisk-ml-capacity",
        "hyperdisk-ml-throughput",
        "disk-image",
        "benchmark",
        "epp",
        "load-balancer",
        "nat-gateway",
        "nat-address",
        "registry",
        "bucket",
    ]
    assert line(bill(FULL), "hyperdisk-ml-throughput").quantity == 4800


def test_the_download_through_nat_is_paid_once_and_in_no_total() -> None:
    (download,) = bill(FULL).once
    assert (download.id, download.quantity, download.unit_price_usd) == ("nat-data", 28, 0.045)
    assert download.usd_per_hour is None
    assert bill(FULL).usd_per_hour_known == bill(replace(FULL, download_gib=0)).usd_per_hour_known


def test_a_nat_gateway_costs_no_more_beyond_32_machines() -> None:
    few, many = (line(bill(replace(FULL, nodes=nodes)), "nat-gateway") for nodes in (31, 400))
    assert (few.quantity, many.quantity) == (31, 32)
    assert many.usd_per_hour == pytest.approx(0.0448)


@pytest.mark.parametrize("stated", [{}, {"nat-gateway": 0.01}])
def test_a_nat_gateway_costs_a_paused_fleet_what_it_costs_a_fleet_of_one_machine(stated: dict[str, float]) -> None:
    full = bill(replace(FULL, stated_prices=stated))
    paused = next(item for item in full.residual_items if item.id == "nat-gateway")
    assert (line(full, "nat-gateway").quantity, paused.quantity) == (8, 1)
    assert paused.usd_per_hour == line(bill(replace(FULL, nodes=1, stated_prices=stated)), "nat-gateway").usd_per_hour


@pytest.mark.parametrize(("day", "old"), [("2026-12-30", 0), ("2026-12-31", 1)])
def test_a_price_is_old_after_half_a_year_that_nobody_looked_at_it(day: str, old: int) -> None:
    found = bill(replace(SPOT, registry_gib=9)).old(date.fromisoformat(day))
    assert [item.id for item in found] == ["nodes"] * old


def test_today_is_what_the_environment_says_for_a_build_that_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert prices.today() == date(1970, 1, 1)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    assert prices.today() > date(2026, 1, 1)


def test_a_benchmark_node_costs_its_machine_and_stops_with_the_fleet() -> None:
    benchmark = line(bill(FULL), "benchmark")
    assert benchmark.usd_per_hour == pytest.approx(0.7907)
    assert not benchmark.paid_at_zero_replicas


def test_a_machine_nobody_priced_is_unknown_by_name() -> None:
    clients = line(bill(replace(FULL, benchmark_machine_type="c4-standard-192")), "benchmark")
    assert clients.usd_per_hour is None
    assert "c4-standard-192" in clients.name
    assert clients.reason


def test_a_month_is_730_hours() -> None:
    bucket = line(bill(FULL), "bucket")
    assert bucket.usd_per_month == pytest.approx(5 * 0.02)
    assert bucket.usd_per_hour == pytest.approx(5 * 0.02 / 730)


def test_what_destroy_leaves_is_the_image_of_the_weights_and_the_bucket() -> None:
    left = bill(FULL)
    assert [item.id for item in left.after_destroy_items] == ["disk-image", "bucket"]
    assert left.after_destroy_usd_per_month == pytest.approx(0.10)


def test_a_complete_bill_is_not_called_at_least() -> None:
    assert bill(FleetShape(nodes=0, region="europe-west4", capacity="spot")).format_hourly_total() == "$0.10 an hour"
    assert bill(SPOT).format_hourly_total() == "at least $408.98 an hour (2 prices unknown)"


def test_the_volume_that_was_written_is_paid_for_beside_those_that_are_read() -> None:
    shape = WeightsShape(size_gib=100, throughput_mibps=4800, copies=2, writer_throughput_mibps=400)
    items = bill(replace(SPOT, weights=shape))
    assert line(items, "hyperdisk-ml-capacity").quantity == 300
    assert line(items, "hyperdisk-ml-throughput").quantity == 10_000


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("capacity", "on demand", "capacity must be one of on-demand, .*, got 'on demand'"),
        ("nodes", -1, "nodes must be 0 or more, got -1"),
        ("committed_nodes", -2, "committed_nodes must be 0 or more, got -2"),
        ("usd_per_node_hour", -1.0, "usd_per_node_hour must be 0 or more, got -1.0"),
        ("usd_per_node_hour", float("nan"), "usd_per_node_hour must be 0 or more, got nan"),
        ("usd_per_node_hour", float("inf"), "usd_per_node_hour must be 0 or more, got inf"),
        ("bucket_gib", -0.5, "bucket_gib must be 0 or more, got -0.5"),
    ],
)
def test_a_number_that_cannot_be_is_refused(field: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SPOT, **{field: value})  # type: ignore[arg-type]


fleets = st.builds(
    FleetShape,
    nodes=st.integers(0, 1000),
    region=st.sampled_from(["europe-west4", "us-central1", "mars-west1"]),
    capacity=st.sampled_from(cost.CAPACITY_KEYS),
    committed_nodes=st.none() | st.integers(0, 1000),
    usd_per_node_hour=st.none() | st.floats(0, 1000),
    cluster=st.booleans(),
    weights=st.none()
    | st.builds(
        WeightsShape,
        size_gib=st.integers(4, 65_536),
        throughput_mibps=st.integers(400, 100_000),
        copies=st.integers(1, 3),
        image_gib=st.integers(0, 65_536),
        writer_throughput_mibps=st.integers(0, 10_000),
    ),
    benchmark_machine_type=st.none() | st.sampled_from(["c4-standard-16", "c4-highcpu-2"]),
    epp_vcpus=st.integers(0, 64),
    load_balancers=st.integers(0, 3),
    nat_gateways=st.integers(0, 3),
    download_gib=st.floats(0, 1000),
    registry_gib=st.floats(0, 1000),
    bucket_gib=st.floats(0, 1000),
)


@settings(deadline=None)  # the first example reads a file
@given(fleet=fleets)
def test_no_amount_is_ever_negative_and_the_parts_never_exceed_the_whole(fleet: FleetShape) -> None:
    answer = bill(fleet)
    assert all(item.usd_per_hour is None or item.usd_per_hour >= 0 for item in answer.items)
    assert 0 <= answer.residual_usd_per_hour <= answer.usd_per_hour_known + 1e-9
    assert 0 <= answer.after_destroy_usd_per_month <= answer.usd_per_hour_known * cost.HOURS_PER_MONTH + 1e-6
    assert all((item.usd_per_hour is None) == (item.reason is not None) for item in answer.items)


@settings(deadline=None)  # the first example reads a file
@given(fleet=fleets, more=st.integers(1, 100))
def test_more_nodes_never_cost_less(fleet: FleetShape, more: int) -> None:
    larger = replace(fleet, nodes=fleet.nodes + more)
    assert bill(larger).usd_per_hour_known >= bill(fleet).usd_per_hour_known
    assert set(bill(fleet).unknown) <= set(bill(larger).unknown)


def test_a_bill_is_that_of_the_machine_with_its_own_boot_disk_and_the_ssds_it_asks_for() -> None:
    g2 = FleetShape(nodes=2, region="us-central1", capacity="on-demand", machine=find("g2-standard-12"), local_ssd=True)
    cheap = bill(g2)
    assert cheap.nodes.unit_price_usd == pytest.approx(1.0, abs=0.01)
    assert line(cheap, "boot-disk-pd").usd_per_month == pytest.approx(2 * 250 * 0.1)
    assert line(cheap, "local-ssd").usd_per_month == pytest.approx(2 * 375 * 0.08)
    plain = bill(replace(g2, local_ssd=False, boot_disk_gib=128))
    assert {item.id for item in plain.items}.isdisjoint({"local-ssd", "boot-disk"})
    assert line(plain, "boot-disk-pd").quantity == 2 * 128
    both = bill(replace(g2, benchmark_machine_type="c4-standard-16"))
    assert line(both, "boot-disk").quantity == 100


def test_a_reservation_costs_as_on_demand_where_the_machine_is_sold_so() -> None:
    shape = replace(SPOT, capacity="reservation", committed_nodes=12)
    assert bill(shape).nodes.unit_price_usd is None
    reserved = bill(replace(shape, machine=find("a3-highgpu-8g"))).nodes
    assert (
        reserved.unit_price_usd
        == bill(replace(SPOT, capacity="on-demand", machine=find("a3-highgpu-8g"))).nodes.unit_price_usd
    )
    assert reserved.unit_price_usd is not None


@pytest.mark.parametrize(
    ("stated", "priorities", "expected"),
    [
        pytest.param(88.0, ("reservation", "spot", "flex-start"), 88.0, id="the reservation is the dearest"),
        pytest.param(
            50.0, ("reservation", "spot", "flex-start"), 64.44, id="flex-start is dearer than the reservation"
        ),
        pytest.param(50.0, ("spot", "flex-start"), 50.0, id="without a reservation it is every priority's"),
        pytest.param(20.0, ("spot",), 20.0, id="one priority"),
    ],
)
def test_a_compute_class_bill_takes_the_dearest_priority(
    stated: float, priorities: tuple[str, ...], expected: float
) -> None:
    shape = replace(SPOT, capacity="compute-class", priorities=priorities, region="us-east4", usd_per_node_hour=stated)
    nodes = bill(shape).nodes
    assert nodes.unit_price_usd == expected
    assert (nodes.price is None) is (expected == stated)  # a list price is not said to be stated
    prices = priority_prices(shape)
    assert len(prices) == 1 or nodes.steps == prices
    assert tuple(prices) == priorities
    assert max(usd or 0 for usd in prices.values()) == expected
