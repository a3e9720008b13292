"""What the host refuses before a component is made, in this process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pulumi.errors import InputPropertyError

from facades.host import Host
from facades.inputs import secret
from tests.support.canaries import CANARIES, shown
from tests.support.rows import each_row

HOST = Host()


def refused(component: str, inputs: dict[str, Any]) -> InputPropertyError:
    with pytest.raises(InputPropertyError) as error:
        HOST.map_inputs(inputs, HOST._component_defs[component])
    return error.value


@pytest.mark.parametrize("value", [["x"], {"a": "b"}, 5.0, True, None])
def test_a_text_of_another_kind_is_refused_by_its_name(value: Any) -> None:
    for component, name in (("ModelWeights", "hfToken"), ("VllmServer", "weightsClaim"), ("VllmFleet", "apiKey")):
        assert refused(component, {name: value}).property_path == name


def test_so_is_a_secret_of_another_kind_where_it_is_opened() -> None:
    async def opened(value: Any) -> Any:
        output = secret({"hf_token": value}, "hf_token")
        assert output is not None
        assert await output.is_secret()
        return await output.future()

    assert asyncio.run(opened("a")) == "a"
    with pytest.raises(InputPropertyError) as error:
        asyncio.run(opened(["a"]))
    assert error.value.property_path == "hfToken"


def test_a_secret_where_none_belongs_is_refused() -> None:
    for component, name in (("VllmServer", "weightsClaim"), ("VllmServer", "imagePrefix")):
        error = refused(component, {name: CANARIES["hugging-face"]})
        assert (error.property_path, shown(error.reason)) == (name, False)
    given = {"zones": ["europe-west4-b"], "namespace": "models", "capacity": "spot", "weightsClaim": "claim"}
    given["machine"] = "g2-standard-12"
    HOST.map_inputs({**given, "apiKey": CANARIES["hugging-face"]}, HOST._component_defs["VllmServer"])


@each_row(
    ("component", "inputs", "name", "allowed"),
    {
        "no machine": ("VllmFleet", {"project": "p", "zones": ["z"], "capacity": "spot"}, "machine", "a text"),
        "no machine of a server": (
            "VllmServer",
            {"zones": ["z"], "namespace": "n", "capacity": "spot", "weightsClaim": "c"},
            "machine",
            "a text",
        ),
        "no machine of a ladder": ("CapacityLadder", {"zones": ["z"], "namespace": "n"}, "machine", "a text"),
        "a number for a text": ("VllmFleet", {"machine": 8.0}, "machine", "a text"),
        "a text for a list": ("VllmFleet", {"zones": "europe-west4-b"}, "zones", "a list"),
        "a text for a number": ("VllmFleet", {"replicas": "two"}, "replicas", "a whole number"),
        "no mode": ("VllmFleet", {"capacity": "sopt"}, "capacity", "on-demand, spot"),
    }.values(),
)
def test_an_input_that_is_missing_or_of_another_kind_says_what_is_allowed_and_why(
    component: str, inputs: dict[str, Any], name: str, allowed: str
) -> None:
    error = refused(component, inputs)
    assert error.property_path == name
    assert f"allowed: {allowed}" in error.reason
    assert "; why: " in error.reason
