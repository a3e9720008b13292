"""Machine types: which one a GPU's name means."""

from __future__ import annotations

from facts.machines import machine_hint, meant_machine
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


@each_row(
    ("words", "known", "said"),
    [
        ("h100", (), "did you mean a3-highgpu-1g?"),
        ("a4-higgpu-8g", (), "did you mean a4-highgpu-8g?"),
        ("h100", ("a4-highgpu-8g", "any"), "allowed: a4-highgpu-8g, any"),
        ("tpu", ("any",), "allowed: any"),
    ],
)
def test_an_unknown_machine_has_a_hint_among_those_that_are_known(
    words: str, known: tuple[str, ...], said: str
) -> None:
    assert machine_hint(words, known) == said
