"""Conditions under which drills do not apply to a stack."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lab.drills import autoscaling
from lab.drills.catalogue import DRILLS, chosen
from lab.drills.conditions import (
    all_of,
    has_gateway,
    needs_servers,
    needs_ways,
    no_others,
    on_spot,
    owns_platform,
    writes_weights,
)
from lab.stage.variants import varied
from settings.stack import Settings
from tests.support.rows import each_row
from tests.support.stacks import opened_stack

ROOT = Path(__file__).parents[3]


def make_settings(stack: str, **sections: Any) -> Settings:
    """Of a sample stack, with these settings written over."""
    return varied(opened_stack(stack), sections).settings


def skipped(stack: str, **sections: Any) -> set[str]:
    settings = make_settings(stack, **sections)
    return {one.name for one in DRILLS if one.skip(settings)}


def test_fewer_servers_than_needed_is_a_reason_and_enough_is_none() -> None:
    one = make_settings("dev", server={"replicas": 1})
    assert needs_servers()(one) == ""
    assert re.findall(r"\d+", needs_servers(2)(one)) == ["1", "2"]
    assert re.findall(r"\d+", needs_servers()(make_settings("dev", server={"replicas": 0}))) == ["0", "1"]


def test_where_none_is_left_to_go_on_that_shows_nothing() -> None:
    assert no_others(2) == no_others(5, gone=4) == ""
    assert no_others(1)
    assert "4 replicas" in no_others(4, gone=4)


def test_a_number_that_somebody_else_sets_is_a_reason_however_few_are_needed() -> None:
    external = make_settings("dev", server={"replicas": "external"})
    assert needs_servers(0)(external).startswith("server.replicas is external")


def test_only_interruptible_capacity_gets_a_notice() -> None:
    assert on_spot(1)(make_settings("spot")) == ""
    assert "Spot" in on_spot(1)(make_settings("cud"))
    assert re.findall(r"\d+", on_spot(4)(make_settings("dev"))) == ["1", "4"]


def test_weights_gateway_and_platform() -> None:
    assert writes_weights(make_settings("dev")) == ""
    assert has_gateway(make_settings("gateway")) == ""
    assert "gateway" in has_gateway(make_settings("dev"))
    assert owns_platform(make_settings("dev")) == ""
    assert "another stack" in owns_platform(make_settings("code"))


def test_the_first_reason_of_several_is_told() -> None:
    dev = make_settings("dev")
    assert all_of(lambda _: "", lambda _: "one", lambda _: "two")(dev) == "one"
    assert all_of(lambda _: "", lambda _: "")(dev) == ""


def test_a_stack_of_one_spot_server_skips_what_needs_more_or_a_gateway() -> None:
    found = skipped("dev")
    assert {"preempt-four", "drain", "gateway-without-subnet"} <= found
    assert not found & {
        "bring-up",
        "second-up",
        "destroy",
        "dead-rank",
        "preempt-one",
        "over-quota",
        "stock-out",
        "pause",
    }


def test_a_stack_of_twelve_spot_servers_skips_what_it_does_not_have() -> None:
    assert skipped("spot") == {
        "canary-among-users",
        "disk-quota",
        "flex-recycled",
        "gateway-name",
        "gateway-without-subnet",
        *(drill.name for drill in autoscaling.DRILLS),
    }


def test_drills_of_an_autoscaler_need_one_and_room_between_its_bounds() -> None:
    names = {drill.name for drill in autoscaling.DRILLS}
    assert not skipped("prod") & names
    assert skipped("prod", server={"scaling": {"mode": "schedule"}}) & names == names - {"schedule"}
    assert skipped("prod", server={"scaling": {"windows": []}}) & names == {"schedule"}


FLEX_ALONE = {"mode": "ladder", "spot": False}


@each_row(
    ("stack", "changes", "why"),
    [
        ("prod", {}, ""),
        ("dev", {"capacity": FLEX_ALONE}, ""),
        ("dev", {"capacity": {**FLEX_ALONE, "flexStartSeconds": 7_200}}, "flexStartSeconds"),
        ("dev", {"capacity": {"mode": "flex-start", "runDurationSeconds": 604_800}}, "capacity.mode flex-start"),
        ("prod", {"capacity": '{"mode": "ladder", "flexStartSeconds": null, "reservation": {"name": "r"}}'}, "rung"),
        ("spot", {}, "rung"),
        ("prod", {"server": {"replicas": 0, "scaling": {"mode": "load", "max": 8}}}, "0 replicas"),
        ("prod", {"server": {"scaling": {"mode": "load", "min": 0, "max": 8}}}, "server.scaling.min"),
        ("dev", {"capacity": FLEX_ALONE, "server": {"replicas": "external"}}, "external"),
    ],
)
def test_only_a_ladder_of_nodes_that_live_long_enough_replaces_them_ahead_of_their_end(
    stack: str, changes: dict[str, Any], why: str
) -> None:
    (drill,) = chosen(["flex-recycled"])
    reason = drill.skip(make_settings(stack, **changes))
    assert why in reason
    assert bool(why) == bool(reason)


ONE_RANK = {"needs": {"concurrencyPerReplica": 250}, "engine": {"dataParallelSize": 1}}


def test_a_drill_of_a_way_that_the_machine_is_not_sold_is_skipped() -> None:
    small = {"machine": "a3-highgpu-1g", "server": {"replicas": 4, **ONE_RANK}}
    assert "inactive-reservation" in skipped("dev", **small)
    assert not skipped("dev", **small) & {"late-compute-class", "stock-out", "project-quota", "preempt-four"}
    assert re.findall(
        "calendar|reservation", needs_ways("reservation", "spot", "calendar")(make_settings("dev", **small))
    )


def test_servers_that_share_a_machine_skip_what_counts_machines_of_their_own() -> None:
    shared = {"machine": "a3-highgpu-8g", "server": {"replicas": 4, "gpus": 1, **ONE_RANK}}
    assert "preempt-four" in skipped("dev", **shared)
    assert not skipped("dev", **shared) & {"bring-up", "drain", "preempt-one", "stock-out", "project-quota"}


def test_on_demand_there_is_stock_and_quota_to_run_out_of_and_no_notice() -> None:
    server = {"replicas": 1, "profile": "serve-chat", "engine": {"maxNumSeqs": 32, "speculative": None}}
    demand = {
        "machine": "g2-standard-12",
        "capacity": {"mode": "on-demand"},
        "model": {"id": "Qwen/Qwen3.5-4B"},
        "server": server,
    }
    found = skipped("dev", **demand)
    assert {"preempt-one", "inactive-reservation"} <= found
    assert not found & {"stock-out", "project-quota", "over-quota"}
    assert {"stock-out", "project-quota"} <= skipped("cud")
    assert "disk-quota" not in skipped("smoke")
    assert "disk-quota" in skipped("smoke", machine="g4-standard-48") & skipped("dev")


def test_a_server_that_downloads_its_own_weights_has_no_second_one_to_drill_with() -> None:
    found = skipped("dev", weights={"source": "huggingface"})
    assert {"to-zero", "new-revision"} <= found
    assert not found & {"pause", "stock-out", "project-quota", "over-quota", "two-stacks"}


def test_a_paused_stack_is_brought_up_and_destroyed_and_nothing_else_of_its_servers() -> None:
    played = {one.name for one in DRILLS} - skipped("dev", server={"replicas": 0})
    assert {"bring-up", "second-up", "destroy"} <= played
    assert not played & {"dead-rank", "drain", "over-quota", "pause", "rolling-update", "new-revision"}
