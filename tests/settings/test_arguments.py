"""What a section and a machine's name refuse in a program of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from facts.machines import find
from settings.sections.capacity import Ladder
from settings.sections.engine import Engine
from settings.sections.model import Model
from tests.support.canaries import CANARIES, shown
from tests.support.rows import each_row


def refusal(make: Callable[[], Any]) -> str:
    with pytest.raises(ValueError, match="✗ ") as refused:
        make()
    assert isinstance(refused.value, pulumi.RunError)  # which Pulumi prints without a traceback
    text = str(refused.value)
    assert all(f"\n  {label}:" in text for label in ("allowed", "why", "write"))
    return text


def test_a_secret_in_the_place_of_a_number_is_in_no_error() -> None:
    for secret in CANARIES.values():
        assert not shown(refusal(lambda given=secret: Engine(max_model_len=given)))


@each_row(
    ("make", "subject", "words"),
    {
        "a GPU's name": (lambda: find("h100"), "find.machine_type: h100", 'find("a3-highgpu-1g")'),
        "a machine's misspelt name": (
            lambda: find("g2-standrd-12"),
            "find.machine_type: g2-standrd-12",
            'find("g2-standard-12")',
        ),
        "a machine that GKE does not have": (lambda: find("tpu"), "find.machine_type: tpu", "a4-highgpu-8g"),
        "a text in a section": (
            lambda: Engine(max_model_len="8192"),
            'Engine.max_model_len: "8192"',
            "max_model_len=8192",
        ),  # type: ignore[arg-type]
        "a key that no section has": (
            lambda: Engine(max_model_length=1),
            "Engine.max_model_length",
            "write:   max_model_len=...",
        ),  # type: ignore[call-arg]
        "a key that no nested section has": (
            lambda: Ladder(mode="ladder", reservation={"name": "b200", "projct": "host-project"}),  # type: ignore[arg-type]
            "Ladder.reservation.projct",
            "allowed: name, project, nodes\n  why:     there is no such argument; did you mean project?\n  write:   project=...",
        ),
        "a stack file's spelling of a key that no section has": (
            lambda: Engine(maxModelLength=1),  # type: ignore[call-arg]
            "Engine.maxModelLength",
            "write:   max_model_len=...",
        ),
        "a wrong value in a nested section": (
            lambda: Engine(yarn={"factor": "4"}),  # type: ignore[arg-type]
            'Engine.yarn.factor: "4"',
            "How many times the original context",
        ),
        "a wrong value of a user's own key": (
            lambda: Engine(extra_env={"VLLM_Odd": 3}),  # type: ignore[dict-item]
            "Engine.extra_env.VLLM_Odd: 3",
            "text in quotes",
        ),
        "a required key": (lambda: Model(id="a/b"), "Model.revision is missing", "revision"),
    }.values(),
)
def test_a_wrong_value_is_refused_by_its_path_with_what_to_write(
    make: Callable[[], Any], subject: str, words: str
) -> None:
    text = refusal(make)
    assert text.startswith(f"✗ {subject}")
    assert words in text
