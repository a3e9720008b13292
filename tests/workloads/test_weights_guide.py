"""docs/weights.md says what the program makes and what the script prints."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.settings import make_settings
from tests.workloads.args import weights_args
from workloads.weights.weights import model_path, release_names

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "weights.md").read_text()
SCRIPT = (ROOT / "workloads" / "weights" / "weights_download.sh").read_text()


def test_the_guide_names_the_objects_of_the_record_run() -> None:
    settings = make_settings()
    names = release_names(weights_args(settings))
    for name in (names.writer, names.volume, names.reader, names.release, model_path(settings.serving.model)):
        assert f"`{name}`" in GUIDE


def test_the_guide_explains_messages_that_the_script_has() -> None:
    table = GUIDE.split("| the log says |", 1)[1].split("\n## ", 1)[0]
    messages = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    assert len(messages) == 5
    assert all(message in SCRIPT for message in messages)


def test_the_load_time_of_the_guide_follows_from_size_and_throughput() -> None:
    settings = make_settings()
    gigabytes = 12 * settings.serving.model.size_gb
    seconds = gigabytes * 1e9 / (settings.weights.throughput_mibps * 2**20)
    assert f"is {seconds:.0f} seconds" in GUIDE
