"""The programs of `examples/` as the recorder sees them: each with the config of its own `Pulumi.example.yaml`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import yaml

from fleet.preview.record.recorder import Mode, Recording, record
from tests.inventory import ROOT, reviewed_text

EXAMPLES = ROOT / "examples"
INVENTORIES = Path(__file__).resolve().parent / "inventories"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/__main__.py"))
STACK = "example"


@cache
def recorded(name: str, mode: Mode = "known") -> Recording:
    """One example, recorded with no stack file of this repository in sight."""
    folder = EXAMPLES / name
    project = yaml.safe_load((folder / "Pulumi.yaml").read_text(encoding="utf-8"))["name"]
    given = yaml.safe_load((folder / f"Pulumi.{STACK}.yaml").read_text(encoding="utf-8"))["config"]
    config = {key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}
    return record(folder, project=project, stack=STACK, config=config, mode=mode)


def example_inventory(name: str) -> str:
    """The inventory of one example, as the text of its reviewed file."""
    return reviewed_text(f"example {name}", recorded(name))
