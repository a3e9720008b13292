"""Machine types: which one a GPU's name means."""

from __future__ import annotations

from facts.machines import meant_machine
from tests.support.rows import each_row


@each_row(
    ("words", "type_"),
    [
        ("h100", "a3-highgpu-1g"),
        ("nvidia-h100-80gb", "a3-highgpu-1g"),
        ("8x H100", "a3-highgpu-8g"),
        ("h100x4", "a3-highgpu-4g"),
        ("H200", "a3-ultragpu-8g"),
        ("b200", "a4-highgpu-8g"),
        ("a100-80gb", "a2-ultragpu-1g"),
        ("l4", "g2-standard-12"),
        ("a3", "a3-highgpu-1g"),
        ("tpu", None),
        ("", None),
    ],
)
def test_a_gpus_name_means_a_machine(words: str, type_: str | None) -> None:
    meant = meant_machine(words)
    assert (meant and meant.type) == type_
