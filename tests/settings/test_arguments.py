"""What a section and a machine's name refuse in a program of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from facts.machines import find
from settings.sections.capacity import ComputeClassMode
from settings.sections.engine import Engine
from settings.sections.model import Model
from tests.support.canaries import CANARIES, shown
from tests.support.rows import each_row


def refusal(make: Callable[[], Any]) -> str:
    with pytest.raises(ValueError, match="✗ ") as refused:
        make()
    assert isinstance(refused.value, pulumi.RunError)  # which Pulumi prints without a traceback
    text = str(refused.value)
    assert all(f"\n  {label}:" in text for label in ("allowed", "why"))
    return text


def test_a_secret_in_the_place_of_a_number_is_in_no_error() -> None:
    for secret in CANARIES.values():
        assert not shown(refusal(lambda given=secret: Engine(max_model_len=given)))


@each_row(
    ("make", "head", "near"),
    [
        (lambda: find("h100"), "find.machine_type: h100", 'find("a3-highgpu-1g")'),
        (lambda: find("g2-standrd-12"), "find.machine_type: g2-standrd-12", 'find("g2-standard-12")'),
        (lambda: find("tpu"), "find.machine_type: tpu", ""),
        (lambda: Engine(max_model_len="8192"), 'Engine.max_model_len: "8192"', ""),  # type: ignore[arg-type]
        (lambda: Engine(max_model_length=1), "Engine.max_model_length: given", "max_model_len"),  # type: ignore[call-arg]
        (lambda: Engine(maxModelLength=1), "Engine.maxModelLength: given", "max_model_len"),  # type: ignore[call-arg]
        (
            lambda: ComputeClassMode(mode="compute-class", reservation={"name": "b200", "projct": "host-project"}),  # type: ignore[arg-type]
            "ComputeClassMode.reservation.projct: given",
            "project",
        ),
        (lambda: Engine(yarn={"factor": "4"}), 'Engine.yarn.factor: "4"', ""),  # type: ignore[arg-type]
        (lambda: Engine(extra_env={"VLLM_Odd": 3}), "Engine.extra_env.VLLM_Odd: 3", ""),  # type: ignore[dict-item]
        (lambda: Engine(max_model_len=[object()]), 'Engine.max_model_len: ["a value of type object"]', ""),  # type: ignore[arg-type]
        (lambda: Model(id="a/b"), "Model.revision is missing", ""),  # type: ignore[call-arg]
    ],
)
def test_a_wrong_value_is_refused_by_its_path_with_the_nearest_name(
    make: Callable[[], Any], head: str, near: str
) -> None:
    first, *rest = refusal(make).splitlines()
    assert first == f"✗ {head}"
    assert not near or f"  write:   {near}" in rest
