"""What the components' arguments refuse by themselves."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from facts.machines import find
from facts.models import CATALOGUE
from settings.derived.traffic import Traffic
from settings.sections.capacity import OnDemand, placement
from settings.sections.engine import Engine
from settings.sections.model import Model
from settings.sections.server import Image
from settings.sections.server import Server as ServerSection
from settings.sections.weights import Weights
from tests.support.rows import each_row
from tests.support.settings import make_settings
from tests.workloads.args import server_args, weights_args
from workloads.namespace import NamespaceArgs
from workloads.server.server import ServerArgs

ANY: Any = object()
OLD = Image(tag="v0.18.1", digest=None)
ON_L4 = placement(OnDemand(mode="on-demand"), namespace="chat", machine=find("g2-standard-12"))


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("name", "Chat"), ("name", "a" * 41), ("startup_minutes", 4), ("replicas", -1), ("replicas", 1_001)],
)
def test_a_server_that_kubernetes_or_a_stack_file_would_refuse_is_refused(field: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=rf"^✗ ServerArgs\.{field}: \"?{wrong}"):
        server_args(make_settings(), **{field: wrong})


def test_a_server_whose_engines_need_more_gpus_than_a_pod_has_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^✗ ServerArgs\.engine: 16 GPUs"):
        server_args(make_settings(), engine=Engine(data_parallel_size=8, tensor_parallel_size=2))


@pytest.mark.parametrize("zones", [(), ("europe-west4-b", "us-central1-b")], ids=["none", "of two regions"])
def test_weights_are_made_in_zones_of_one_region(zones: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"^✗ WeightsArgs\.zones"):
        replace(weights_args(make_settings()), zones=zones)


def test_weights_from_an_image_need_the_image() -> None:
    with pytest.raises(ValueError, match=r"^✗ WeightsArgs\.volume\.image is missing"):
        replace(weights_args(make_settings()), volume=Weights(source="image"))


SIZED = Model(id="Qwen/Qwen3.5-27B-FP8", revision=CATALOGUE["Qwen/Qwen3.5-27B-FP8"].revision, size_gb=29)


@each_row(
    ("change", "subject"),
    {
        "smaller than its model": ({"volume": Weights(size_gib=16)}, "volume.size_gib: 16"),
        "faster than its size": (
            {"volume": Weights(size_gib=64, throughput_mibps=400_000)},
            "volume.throughput_mibps: 400000",
        ),
        "slower than its size": (
            {"volume": Weights(size_gib=10_000, throughput_mibps=400)},
            "volume.throughput_mibps: 400",
        ),
    }.values(),
)
def test_a_volume_that_a_stack_file_could_not_have_is_refused(change: dict[str, Any], subject: str) -> None:
    with pytest.raises(ValueError, match=rf"^✗ WeightsArgs\.{subject}\n"):
        replace(weights_args(make_settings()), model=SIZED, **change)
    replace(weights_args(make_settings()), model=SIZED, volume=Weights(source="huggingface", size_gib=16))


@each_row(
    ("change", "subject"),
    {
        "of another release than the image": ({"engine": Engine(version="0.18.1")}, 'engine.version: "?0.18.1'),
        "with a tool parser of a later release": (
            {"engine": Engine(version="0.18.1", tool_call_parser="qwen3_json"), "image": OLD},
            "engine.tool_call_parser: qwen3_json",
        ),
        "with a reasoning parser of a later release": (
            {"engine": Engine(version="0.18.1", reasoning_parser="poolside_v1"), "image": OLD},
            "engine.reasoning_parser: poolside_v1",
        ),
        "larger than its GPU": (
            {"model": SIZED, "engine": Engine(max_model_len=8192), "placement": ON_L4},
            "engine.tensor_parallel_size: 1",
        ),
    }.values(),
)
def test_a_server_that_a_stack_file_could_not_have_is_refused(change: dict[str, Any], subject: str) -> None:
    with pytest.raises(ValueError, match=rf"^✗ ServerArgs\.{subject}"):
        server_args(make_settings(), **{"engine": Engine(), "image": Image(), **change})


def test_what_fits_is_not_known_of_another_commit_than_the_catalogues() -> None:
    other = SIZED.model_copy(update={"revision": "0" * 40})
    assert server_args(make_settings(), engine=Engine(max_model_len=8192), image=Image(), model=other, placement=ON_L4)


def test_a_quota_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^✗ NamespaceArgs\.gpus: -8"):
        NamespaceArgs(name="chat", traffic=Traffic(server="chat"), gpus=-8)


def test_what_is_left_out_is_what_a_stack_file_would_leave_out() -> None:
    """A default has one place, the section of the stack file; a component's field of its own says the same."""
    defaults = {one.name: one.default for one in dataclasses.fields(ServerArgs)}
    for name in ("startup_minutes", "replicas", "internal_load_balancer"):
        assert defaults[name] == ServerSection.model_fields[name].default
