"""The chart `inferencepool`, from its project's Go module, which also has its definitions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lab.charts.package import Chart, from_folder
from lab.control_plane.custom_resources.definitions import INFERENCE_EXTENSION
from lab.control_plane.modules import pinned

HOST: Final = "registry.k8s.io"
NAME: Final = "inferencepool"
PATH: Final = f"gateway-api-inference-extension/charts/{NAME}"
"""Where its project publishes it. Source: hack/push-chart.sh of the module, which packages it like `from_folder`."""


def chart(modules: Mapping[str, Path]) -> Chart:
    """The chart. `modules`: folder of each module of `modules.pinned`. Raises RehearsalError."""
    folder = modules[INFERENCE_EXTENSION] / "config" / "charts" / NAME
    metadata, packed = from_folder(folder, pinned()[INFERENCE_EXTENSION])
    return Chart(host=HOST, path=PATH, is_oci=True, metadata=metadata, archive=packed)
