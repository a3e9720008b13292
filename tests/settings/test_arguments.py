"""What arguments refuse before a component's own code runs: names, types, and what a section refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pulumi
import pytest

from facts.machines import find
from settings.sections.arguments import checked, hints_of
from settings.sections.capacity import Ladder, Spot, placement
from settings.sections.engine import Engine
from settings.sections.model import Model
from settings.sections.network import Network
from tests.support.canaries import CANARIES, shown
from tests.support.rows import each_row
from tests.test_components import _args_classes


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One argument of each kind."""

    name: str
    """Name of it."""
    zones: Sequence[str] = ()
    count: int | None = None
    share: float = 1.0
    is_on: bool = False
    mode: Literal["spot", "ladder"] = "spot"
    network: Network = field(default_factory=Network)
    labels: Mapping[str, str] = field(default_factory=dict)
    prefix: pulumi.Input[str] = ""
    token: pulumi.Output[str] | None = None
    pairs: Sequence[tuple[str, int]] = ()

    def __post_init__(self) -> None:
        self.name.upper()  # as a component's own check would, before anything looked at the type


def refusal(make: Callable[[], Any]) -> str:
    with pytest.raises(ValueError, match="✗ ") as refused:
        make()
    assert isinstance(refused.value, pulumi.RunError)  # which Pulumi prints without a traceback
    text = str(refused.value)
    assert all(f"\n  {label}:" in text for label in ("allowed", "why", "write"))
    return text


@each_row(
    ("given", "subject", "words"),
    {
        "left out": ({}, "Given.name is missing", "Name of it."),
        "misspelt": ({"name": "a", "zone": ["b"]}, "Given.zone", "write:   zones=..."),
        "a number for a text": ({"name": 5}, "Given.name: 5", 'name="5"'),
        "a text for a list": ({"name": "a", "zones": "b"}, 'Given.zones: "b"', "zones=['b']"),
        "a number in a list": ({"name": "a", "zones": [1]}, "Given.zones: [1]", "each a text"),
        "a text for a number": ({"name": "a", "count": "8"}, 'Given.count: "8"', "count=8"),
        "a switch for a number": ({"name": "a", "count": True}, "Given.count: true", "a whole number"),
        "a text for a share": ({"name": "a", "share": "half"}, 'Given.share: "half"', "a number"),
        "a text for a switch": ({"name": "a", "is_on": "true"}, 'Given.is_on: "true"', "is_on=True"),
        "no such mode": ({"name": "a", "mode": "sopt"}, 'Given.mode: "sopt"', "'spot', 'ladder'"),
        "a mapping for a section": (
            {"name": "a", "network": {"podCidr": "x"}},
            "Given.network",
            "network=Network(...)",
        ),
        "a list for a mapping": ({"name": "a", "labels": ["x"]}, "Given.labels", "labels="),
        "a number for an input": ({"name": "a", "prefix": 5}, "Given.prefix: 5", "another resource's output"),
        "a pair too short": ({"name": "a", "pairs": [("b",)]}, "Given.pairs", "pairs="),
    }.values(),
)
def test_a_wrong_argument_is_refused_by_its_path_with_what_to_write(
    given: dict[str, Any], subject: str, words: str
) -> None:
    text = refusal(lambda: Given(**given))
    assert text.startswith(f"✗ {subject}")
    assert words in text


def test_every_wrong_argument_is_in_one_error() -> None:
    text = refusal(lambda: Given(nme="a", zones="b", count="many"))  # type: ignore[call-arg,arg-type]
    assert [line.split()[1].rstrip(":") for line in text.splitlines() if line.startswith("✗")] == [
        "Given.nme",
        "Given.name",
        "Given.zones",
        "Given.count",
    ]


def test_what_fits_is_taken() -> None:
    async def made() -> None:  # an Output belongs to a loop
        output = pulumi.Output.from_input("x")
        told = Given(name="a", zones=("b",), count=None, share=1, prefix=output, token=output, pairs=[("b", 1)])
        assert (told.zones, told.share, told.prefix) == (("b",), 1, output)

    asyncio.run(made())


def test_a_secret_in_the_place_of_its_output_is_in_no_error() -> None:
    text = refusal(lambda: Given(name="a", token="Correct horse battery!"))  # type: ignore[arg-type]
    assert "horse" not in text
    for secret in CANARIES.values():
        assert not shown(refusal(lambda given=secret: Given(name="a", zones=given)))


@each_row(
    ("make", "subject", "words"),
    {
        "no machine": (lambda: placement(Spot(mode="spot"), namespace="chat"), "placement.machine is missing", "find("),  # type: ignore[call-arg]
        "a GPU's name": (lambda: find("h100"), "find.machine_type: h100", 'find("a3-highgpu-1g")'),
        "a machine's misspelt name": (
            lambda: find("g2-standrd-12"),
            "find.machine_type: g2-standrd-12",
            'find("g2-standard-12")',
        ),
        "a machine that GKE does not have": (lambda: find("tpu"), "find.machine_type: tpu", "a4-highgpu-8g"),
        "a machine's name": (
            lambda: placement(Spot(mode="spot"), namespace="chat", machine="g2-standard-12"),  # type: ignore[arg-type]
            'placement.machine: "g2-standard-12"',
            "find(",
        ),
        "zones as a list": (
            lambda: placement(Spot(mode="spot"), "chat", ["b"], machine=find("g2-standard-12")),  # type: ignore[arg-type]
            'placement.zones: ["b"]',
            "zones=('b',)",
        ),
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
def test_functions_and_sections_refuse_alike(make: Callable[[], Any], subject: str, words: str) -> None:
    text = refusal(make)
    assert text.startswith(f"✗ {subject}")
    assert words in text


def test_the_arguments_of_every_component_are_checked_by_their_types() -> None:
    unknown = {
        f"{args.__name__}.{name}" for args in _args_classes() for name, hint in hints_of(args).items() if hint is Any
    }
    assert unknown == {"ServingStackArgs.measurement", "ServingStackArgs.rates"}  # of modules that are imported on use
    for args in _args_classes():
        text = refusal(lambda kind=args: kind(no_such_argument=1))
        assert f"{args.__name__}.no_such_argument" in text
