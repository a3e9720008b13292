"""Conditions under which drills do not apply to a stack."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lab.drills.catalogue import DRILLS
from lab.drills.conditions import (
    all_of,
    needs_servers,
    needs_ways,
    no_others,
    on_spot,
    writes_weights,
)
from lab.stage.variants import varied
from settings.stack import Settings
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


def test_weights_that_the_stack_writes() -> None:
    assert writes_weights(make_settings("dev")) == ""
    assert writes_weights(make_settings("dev", weights={"source": "huggingface"}))


def test_the_first_reason_of_several_is_told() -> None:
    dev = make_settings("dev")
    assert all_of(lambda _: "", lambda _: "one", lambda _: "two")(dev) == "one"
    assert all_of(lambda _: "", lambda _: "")(dev) == ""


def test_a_stack_of_one_spot_server_skips_what_needs_more() -> None:
    assert skipped("dev") == {"preempt-four", "drain"}


def test_a_stack_of_twelve_spot_servers_skips_nothing() -> None:
    assert skipped("spot") == set()


ONE_RANK = {"needs": {"concurrencyPerReplica": 250}, "engine": {"dataParallelSize": 1}}


def test_a_drill_of_a_way_that_the_machine_is_not_sold_is_skipped() -> None:
    small = {"machine": "a3-highgpu-1g", "server": {"replicas": 4, **ONE_RANK}}
    assert not skipped("dev", **small) & {"late-compute-class", "stock-out", "preempt-four"}
    assert re.findall(
        "calendar|reservation", needs_ways("reservation", "spot", "calendar")(make_settings("dev", **small))
    )


def test_servers_that_share_a_machine_skip_what_counts_machines_of_their_own() -> None:
    shared = {"machine": "a3-highgpu-8g", "server": {"replicas": 4, "gpus": 1, **ONE_RANK}}
    assert "preempt-four" in skipped("dev", **shared)
    assert not skipped("dev", **shared) & {"bring-up", "drain", "stock-out"}


def test_on_demand_there_is_stock_to_run_out_of_and_no_notice() -> None:
    server = {"replicas": 1, "profile": "serve-chat", "engine": {"maxNumSeqs": 32, "speculative": None}}
    demand = {
        "machine": "g2-standard-12",
        "capacity": {"mode": "on-demand"},
        "model": {"id": "Qwen/Qwen3.5-4B"},
        "server": server,
    }
    found = skipped("dev", **demand)
    assert "preempt-four" in found
    assert not found & {"stock-out", "over-quota"}
    assert "stock-out" in skipped("cud")


def test_a_server_that_downloads_its_own_weights_has_no_second_one_to_drill_with() -> None:
    found = skipped("dev", weights={"source": "huggingface"})
    assert {"to-zero", "rolling-update"} <= found
    assert not found & {"pause", "stock-out", "over-quota"}


def test_a_paused_stack_is_brought_up_and_destroyed_and_nothing_else_of_its_servers() -> None:
    played = {one.name for one in DRILLS} - skipped("dev", server={"replicas": 0})
    assert {"bring-up", "second-up", "destroy"} <= played
    assert not played & {"drain", "over-quota", "pause", "rolling-update"}
