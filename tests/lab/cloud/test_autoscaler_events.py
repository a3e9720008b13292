from __future__ import annotations

from typing import get_args

import pytest

from lab.cloud.autoscaler_events import (
    MESSAGE_LENGTH,
    event_manifest,
    not_placed,
    refused,
    unbound_volume,
)
from lab.cloud.machines import machines, with_gpus
from lab.cloud.stock import Refusal, ReservationStock
from tests.lab.cloud.fake_world import gpu_pod

C4 = next(one for one in machines("c4") if one.name == "c4-standard-16")
HELD = ReservationStock(nodes=4, zone="europe-west4-a")


@pytest.mark.parametrize("reason", get_args(Refusal))
def test_every_refusal_of_a_reservation_names_it_and_offers_a_way_out(reason: Refusal) -> None:
    trouble = refused(
        reason,
        mode="reservation",
        machine=with_gpus("a4-highgpu-8g"),
        zone="europe-west4-b",
        name="block-7",
        reservation=HELD,
    )
    assert "block-7" in trouble.message
    assert trouble.fix.endswith((".", ")."))
    assert trouble.code.startswith(("scale.up.error.", "no.scale.up."))
    assert trouble.shown


@pytest.mark.parametrize("machine", ["a4-highgpu-8g", "a3-highgpu-1g", "a3-highgpu-4g", "a3-ultragpu-8g"])
def test_a_machine_that_is_not_sold_on_demand_is_a_mistake_and_not_a_shortage(machine: str) -> None:
    never = refused("not sold", mode="on-demand", machine=with_gpus(machine), zone="europe-west4-b")
    assert "capacity.mode" in never.fix
    assert "on-demand" not in never.fix


def test_what_is_short_is_told_apart_from_what_the_project_may_not_have() -> None:
    l4 = refused("stock", mode="on-demand", machine=with_gpus("g2-standard-12"), zone="europe-west4-a")
    assert l4.code == "scale.up.error.out.of.resources"
    assert "g2-standard-12" in l4.message
    assert "europe-west4-a" in l4.shown
    quota = refused("quota", mode="spot", machine=with_gpus("g2-standard-12"), zone="europe-west4-a")
    assert quota.code == "scale.up.error.quota.exceeded"
    assert "PREEMPTIBLE-NVIDIA-L4-GPUS" in quota.message
    demand = refused("quota", mode="on-demand", machine=with_gpus("g2-standard-12"), zone="europe-west4-a")
    assert "(NVIDIA-L4-GPUS" in demand.message
    c4 = refused("stock", mode="on-demand", machine=C4, zone="europe-west4-a")
    assert "no c4-standard-16 capacity" in c4.message
    assert "capacity.mode" not in c4.fix


def test_the_schedulers_own_words_are_handed_on_without_an_event_of_googles() -> None:
    for trouble in (unbound_volume("its words"), not_placed("its words")):
        assert (trouble.shown, trouble.event) == ("its words", "")


def test_an_event_is_on_its_pod_and_no_longer_than_gke_writes() -> None:
    pod = gpu_pod()
    event = event_manifest(pod, reason="FailedScaleUp", message="x" * 400, warning=True, number=255)
    assert event["metadata"] == {"name": "server-0.autoscaler-ff", "namespace": "vllm"}
    assert event["involvedObject"]["uid"] == pod["metadata"]["uid"]
    assert len(event["message"]) == MESSAGE_LENGTH
    assert event["type"] == "Warning"
