"""Google's own API descriptions accept every input of the program's Google Cloud resources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from facts.names import stack_names
from lab.providers.google.check import check
from lab.providers.google.mapping import table
from tests.infra.test_existing_network import SHARED
from tests.lab.providers.google.samples import IP_ENDPOINT, everything
from tests.support.recorded import GATEWAY, recorded_platform
from tests.support.rows import each_row
from tests.support.stacks import recorded_stack

ROOT = Path(__file__).resolve().parents[2]


@each_row("name", stack_names(ROOT))
def test_the_apis_accept_the_stack(name: str) -> None:
    assert check(recorded_stack(name)) == []


def test_the_apis_accept_a_stack_that_makes_everything() -> None:
    assert check(everything()) == []
    made = {one.type for one in everything().resources if one.type.startswith("gcp:")}
    assert made == table().types.keys()


@pytest.mark.parametrize(
    "settings",
    [
        {"cluster": IP_ENDPOINT},
        {"cluster": {"releaseChannel": "STABLE", "deletionProtection": False}},
        {"network": {"proxyOnly": {"enabled": True}}},
        {"gateway": GATEWAY, "network": SHARED},
        {"stack": "x" * 100, "project": "a" * 30},
        {"stack": "Prod.EU_2"},
    ],
)
def test_the_apis_accept_other_settings(settings: dict[str, Any]) -> None:
    assert check(recorded_platform(**settings)) == []


def test_values_that_are_known_only_after_an_update_are_not_judged() -> None:
    assert check(recorded_platform("preview")) == []
