"""Objects of a Helm release: the chart, packaged and rendered by `helm`.

Charts come from their project's pinned Go module, which also has its CRDs: no chart registry is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml

from fleet.clients.scratch import scratch
from lab.cloud.keda import chart as keda
from lab.control_plane import build
from lab.control_plane.api import Manifest
from lab.control_plane.cache import Progress
from lab.control_plane.modules import pinned
from lab.results.result import RehearsalError

MODULE: Final = "sigs.k8s.io/gateway-api-inference-extension"
REGISTRY: Final = "oci://registry.k8s.io/gateway-api-inference-extension/charts/"
"""Published charts. Source: hack/push-chart.sh of the module, which packages them like `_rendered`."""
_FOLDER: Final = "config/charts"
_SECONDS: Final = 60.0
"""Timeout of helm, wall time. Measured: 0.1 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release that the program wants."""

    name: str
    namespace: str
    inputs: Mapping[str, Any]
    """Chart, version, values and options, without the marks of secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """The charts that a rehearsal can render."""

    modules: Mapping[str, Path]
    """Folder of each module of `modules.pinned`."""
    progress: Progress

    def objects(self, release: Release) -> list[Manifest]:
        """Objects of a Helm release, in Helm's order. Raises RehearsalError if the chart is missing or invalid."""
        inputs, name, namespace = dict(release.inputs), release.name, release.namespace
        if keda.is_keda(inputs):
            return keda.objects(inputs, self.modules)
        chart, version = str(inputs.get("chart")), str(inputs.get("version"))
        source = self.modules[MODULE] / _FOLDER / chart.removeprefix(REGISTRY)
        if not chart.startswith(REGISTRY) or version != pinned()[MODULE] or not (source / "Chart.yaml").is_file():
            raise RehearsalError(
                f"Helm release {name} installs {chart} {version}, but the rehearsal only has the charts of {REGISTRY} at "
                f"{pinned()[MODULE]}. Use one of them, or pin their module in lab/control_plane/go/custom-resources"
            )
        helm = build.helm(self.progress)
        values = json.dumps(inputs.get("values") or {})
        return [one for one in yaml.safe_load_all(_rendered(helm, source, version, name, namespace, values)) if one]


@lru_cache(maxsize=64)
def _rendered(helm: Path, source: Path, version: str, name: str, namespace: str, values: str) -> str:
    """Output of `helm template`, cached for all drills."""
    with scratch("helm") as folder:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("HELM_", "KUBECONFIG"))}
        environment |= {f"HELM_{kind}_HOME": str(folder / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        # Copied: the chart's library is in a sibling folder, and helm writes into the chart's folder.
        charts = shutil.copytree(source.parent, folder / "charts")
        pack = [
            "package",
            "--dependency-update",
            "--version",
            version,
            "--app-version",
            version,
            "--destination",
            str(folder),
        ]
        _run(helm, [*pack, str(charts / source.name)], name, environment)
        file = folder / "values.json"
        file.write_text(values, encoding="utf-8")
        template = ["template", name, str(folder / f"{source.name}-{version}.tgz"), "--namespace", namespace]
        options = ["--values", str(file), "--include-crds", "--skip-tests", "--kube-version", build.KUBERNETES.version]
        return _run(helm, [*template, *options], name, environment)


def _run(helm: Path, arguments: list[str], name: str, environment: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            [helm, *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RehearsalError(f"Helm release {name}: helm {arguments[0]} could not be run: {error}") from error
    if done.returncode:
        text = " ".join(done.stderr.split()).removeprefix("Error: ")
        raise RehearsalError(f"Helm release {name}: helm {arguments[0]} failed: {text[-600:]}")
    return done.stdout
