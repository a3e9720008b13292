"""What the components' arguments refuse by themselves."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from facts.machines import find
from facts.models import CATALOGUE
from settings.sections.capacity import OnDemand, placement
from settings.sections.engine import Engine
from settings.sections.model import Model
from settings.sections.server import Image
from settings.sections.server import Server as ServerSection
from tests.support.rows import each_row
from tests.support.settings import make_settings
from tests.workloads.args import server_args
from workloads.server.server import ServerArgs

ANY: Any = object()
OLD = Image(tag="v0.18.1", digest=None)
ON_L4 = placement(OnDemand(mode="on-demand"), namespace="chat", machine=find("g2-standard-12"))


def test_a_server_whose_engines_need_more_gpus_than_a_pod_has_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^✗ ServerArgs\.engine: 16 GPUs"):
        server_args(make_settings(), engine=Engine(data_parallel_size=8, tensor_parallel_size=2))


SIZED = Model(id="Qwen/Qwen3.5-27B-FP8", revision=CATALOGUE["Qwen/Qwen3.5-27B-FP8"].revision, size_gb=29)


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


def test_what_is_left_out_is_what_a_stack_file_would_leave_out() -> None:
    """A default has one place, the section of the stack file; a component's field of its own says the same."""
    defaults = {one.name: one.default for one in dataclasses.fields(ServerArgs)}
    for name in ("startup_minutes", "replicas", "internal_load_balancer"):
        assert defaults[name] == ServerSection.model_fields[name].default
