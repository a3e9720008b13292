"""How long a first `pulumi up` takes is told once: README and docs/first-up.md say what facts/time_to_serve.py says, as a plan does."""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path

from facts.machines import DEFAULT_MACHINE
from facts.time_to_serve import Start, TimeToServe, time_to_serve
from tests.fleet.verify.stacks import settings_of
from tests.support.rows import each_row

ROOT = Path(__file__).parents[2]
FIRST_UP = (ROOT / "docs" / "first-up.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def first_start(stack: str) -> TimeToServe:
    settings = settings_of(stack)
    weights = settings.weights
    return time_to_serve(
        Start(
            weights_gb=settings.serving.model.size_gb,
            volume_gib=weights.size_gib,
            volume_mibps=weights.throughput_mibps,
            readers=max(1, ceil(settings.replicas / len(settings.zones))),
            weights_from_hub=not weights.has_volume,
            gpus=settings.gpus_per_replica,
            articles_machine=settings.machine == DEFAULT_MACHINE,
        )
    )


@each_row(
    ("stack", "text", "pattern"),
    [
        ("smoke", README, r"first `pulumi up` takes about (\d+) minutes"),
        ("dev", FIRST_UP, r"\| 5 \| .*? \| about (\d+) min,"),
    ],
)
def test_the_whole_way_is_within_a_minute_of_the_plans(stack: str, text: str, pattern: str) -> None:
    (said,) = re.findall(pattern, text)
    assert abs(int(said) - first_start(stack).likely_seconds / 60) <= 1


@each_row(
    ("row", "steps"),
    [
        ("5a", ("apis",)),
        ("5c", ("cluster",)),
        ("5e", ("writer-node", "download")),
        ("5f", ("image", "volume")),
        ("5g", ("gpu-node", "image-pull", "weights-read", "engines")),
    ],
)
def test_each_row_is_within_a_minute_of_its_steps(row: str, steps: tuple[str, ...]) -> None:
    way = {step.id: step.likely_seconds for step in first_start("dev").steps}
    (said,) = re.findall(rf"^\| {row} \| [^|]* \| ([\d.]+) min", FIRST_UP, re.MULTILINE)
    assert abs(float(said) - sum(way[step] for step in steps) / 60) <= 1
