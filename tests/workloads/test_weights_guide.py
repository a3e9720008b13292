"""docs/weights.md says what the program makes and what the script prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleet.preview.offline import open_stack
from settings.stack import Settings
from tests.workloads.args import weights_args
from workloads.weights.weights import image_class_fields, model_path, release_names

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "weights.md").read_text()
SCRIPT = (ROOT / "workloads" / "weights" / "weights_download.sh").read_text()


@pytest.fixture(scope="module")
def spot() -> Settings:
    return open_stack(ROOT, "spot").settings


def test_the_guide_names_the_objects_of_the_stack_it_shows(spot: Settings) -> None:
    assert "object (spot stack)" in GUIDE
    names = release_names(weights_args(spot))
    for name in (names.writer, names.volume, names.reader, names.release, model_path(spot.serving.model)):
        assert f"`{name}`" in GUIDE


def test_the_guide_explains_messages_that_the_script_has() -> None:
    table = GUIDE.split("| log message |", 1)[1].split("\n## ", 1)[0]
    messages = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    assert len(messages) == 5
    assert all(message in SCRIPT for message in messages)


def test_the_load_time_of_the_guide_follows_from_size_and_throughput(spot: Settings) -> None:
    size_gb, mibps = spot.serving.model.size_gb, spot.weights.throughput_mibps
    seconds = spot.replicas * size_gb * 1e9 / (mibps * 2**20)
    assert f"{spot.replicas} x {size_gb:g} GB at {mibps:,} MiB/s is {seconds:.0f} seconds" in GUIDE
    assert f"throughputMibps: {mibps} " in GUIDE


def test_the_guides_filters_find_what_the_program_makes(spot: Settings) -> None:
    args = weights_args(spot)
    names = release_names(args)
    (family,) = set(re.findall(r"family~(\S+?)'", GUIDE))
    assert re.match(family, names.release)
    made = image_class_fields(args, names)["parameters"]
    assert made["image-family"] == names.release
    assert "labels.fleet" in GUIDE
    assert "fleet=" in made["labels"]
