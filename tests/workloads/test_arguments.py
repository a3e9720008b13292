"""What the components' arguments refuse by themselves."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from settings.derived.traffic import Traffic
from settings.sections.engine import Engine
from settings.sections.server import Server as ServerSection
from settings.sections.weights import Weights
from tests.support.settings import make_settings
from tests.workloads.args import server_args, weights_args
from workloads.namespace import NamespaceArgs
from workloads.server.server import ServerArgs

ANY: Any = object()


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


def test_a_quota_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^✗ NamespaceArgs\.gpus: -8"):
        NamespaceArgs(name="chat", traffic=Traffic(server="chat"), gpus=-8)


def test_what_is_left_out_is_what_a_stack_file_would_leave_out() -> None:
    """A default has one place, the section of the stack file; a component's field of its own says the same."""
    defaults = {one.name: one.default for one in dataclasses.fields(ServerArgs)}
    for name in ("startup_minutes", "replicas", "internal_load_balancer"):
        assert defaults[name] == ServerSection.model_fields[name].default
