"""kwok's Stages of a rehearsal: its own for nodes and pods, and the lab's for what Google's and KEDA's controllers write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from lab.control_plane.api import Manifest

_FOLDER: Final = Path(__file__).with_name("kwok")
OWN: Final = ("disks.yaml", "gateway.yaml")
KEDA: Final = "keda.yaml"
"""Apart: its kind is served once KEDA is installed, and kwok ends for a kind that is not."""
KWOKS: Final[Mapping[str, int]] = {
    "node-initialize.yaml": 100,
    "pod-ready.yaml": 400,
    "pod-complete.yaml": 400,
    "pod-delete.yaml": 300,
}
"""kwok's own stages, and milliseconds of delay. Not zero: what a drill interrupts, it must find under way."""


def kubelet_stages(folder: Path) -> list[Manifest]:
    """Of nodes and pods. `folder` has kwok's files."""
    found = []
    for name, milliseconds in KWOKS.items():
        for stage in _read(folder / name):
            stage["spec"]["delay"] = {"durationMilliseconds": milliseconds}
            found.append(stage)
    return found


def platform_stages() -> list[Manifest]:
    """Of kinds that GKE has from the start."""
    return [stage for name in OWN for stage in _read(_FOLDER / name)]


def keda_stages() -> list[Manifest]:
    """Of KEDA's kinds."""
    return _read(_FOLDER / KEDA)


def _read(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
