"""A stack file with some settings written over, as a person would edit it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.preview.offline import OfflineStack, open_stack
from lab.stage.variants import varied
from settings.sections.capacity import ComputeClassMode, Spot

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def dev() -> OfflineStack:
    return open_stack(ROOT, "dev")


def section(stack: OfflineStack, name: str) -> Any:
    return json.loads(stack.config[f"vllm-fleet:{name}"])


def test_a_key_is_written_over_and_everything_else_stays(dev: OfflineStack) -> None:
    before = dict(dev.config)
    changed = varied(dev, {"server": {"replicas": 4}})
    assert changed.settings.server.replicas == 4
    assert section(changed, "server") == {**section(dev, "server"), "replicas": 4}
    assert {**changed.config, "vllm-fleet:server": ""} == {**before, "vllm-fleet:server": ""}
    assert (dict(dev.config), dev.settings.server.replicas) == (before, 1)


def test_a_section_that_the_file_does_not_have_is_added(dev: OfflineStack) -> None:
    assert "vllm-fleet:monitoring" not in dev.config
    changed = varied(dev, {"monitoring": {"intervalSeconds": 30}})
    assert section(changed, "monitoring") == {"intervalSeconds": 30}
    assert changed.settings.monitoring.interval_seconds == 30


def test_none_takes_a_key_out_and_the_default_holds_again(dev: OfflineStack) -> None:
    more = varied(dev, {"server": {"startupMinutes": 44}})
    assert more.settings.server.startup_minutes == 44
    again = varied(more, {"server": {"startupMinutes": None, "neverThere": None}})
    assert again.settings.server.startup_minutes == dev.settings.server.startup_minutes
    assert section(again, "server") == section(dev, "server")


def test_inner_mappings_are_merged_key_by_key(dev: OfflineStack) -> None:
    reservation = {"name": "block", "project": "theirs"}
    compute_class = varied(dev, {"capacity": {"mode": "compute-class", "reservation": reservation}})
    changed = varied(compute_class, {"capacity": {"reservation": {"name": "other"}}})
    assert section(changed, "capacity") == {"mode": "compute-class", "reservation": {**reservation, "name": "other"}}


def test_a_mode_replaces_its_section_as_a_whole(dev: OfflineStack) -> None:
    compute_class = {"mode": "compute-class", "reservation": {"name": "block"}}
    changed = varied(dev, {"capacity": compute_class})
    assert isinstance(changed.settings.capacity, ComputeClassMode)
    back = varied(changed, {"capacity": {"mode": "spot"}})
    assert section(back, "capacity") == {"mode": "spot"}  # no reservation is left over, which Spot would refuse
    assert isinstance(back.settings.capacity, Spot)
