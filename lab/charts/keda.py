"""A small chart `keda`: KEDA's own manifests and definitions, as the chart itself is in no registry that a rehearsal uses.

They come from KEDA's Go module (config/) of the same version, with the chart's names and this program's values; webhooks are left out.
Whoever has the real chart names its folder in VLLM_FLEET_KEDA_CHART.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import yaml

from lab.charts.package import Chart, archive, from_folder
from lab.control_plane.api import Manifest
from lab.control_plane.custom_resources.definitions import KEDA, keda_definitions
from lab.control_plane.modules import pinned
from workloads.keda.values import CHART, METRICS_SERVER, OPERATOR, REPOSITORY, WEBHOOKS

OWN: Final = "VLLM_FLEET_KEDA_CHART"
"""Variable with the folder of the user's own download."""
_FOLDERS: Final = ("service_account", "rbac", "manager", "metrics-server", "webhooks")
_LEFT_OUT: Final = ("Kustomization", "ValidatingWebhookConfiguration")
_RESOURCES: Final = {OPERATOR: "operator", METRICS_SERVER: "metricServer", WEBHOOKS: "webhooks"}
"""Label `app` of a Deployment's pods, and its key among the chart's values for resources."""


def chart(modules: Mapping[str, Path]) -> Chart:
    """The chart. `modules`: folder of each module of `modules.pinned`. Raises RehearsalError."""
    version = pinned()[KEDA].removeprefix("v")
    host, _, path = REPOSITORY.removeprefix("https://").partition("/")
    if own := os.environ.get(OWN):
        metadata, packed = from_folder(Path(own).expanduser(), version)
    else:
        metadata = {"apiVersion": "v2", "name": CHART, "version": version, "appVersion": version}
        packed = archive(metadata, dict(_files(modules, version)))
    return Chart(host=host, path=path, is_oci=False, metadata=metadata, archive=packed)


def _files(modules: Mapping[str, Path], version: str) -> Iterator[tuple[str, bytes]]:
    # Templates, as in the real chart: a definition goes with its release.
    for number, definition in enumerate(keda_definitions(modules)):
        yield f"templates/crd-{number}.yaml", _escaped(yaml.safe_dump(definition)).encode()
    for number, manifest in enumerate(_installed(modules[KEDA] / "config", version)):
        yield f"templates/{number}.yaml", _templated(manifest).encode()


def _installed(config: Path, version: str) -> Iterator[Manifest]:
    for folder in _FOLDERS:
        for file in sorted((config / folder).glob("*.yaml")):
            text = re.sub(r"(?<!/)keda-metrics-apiserver", METRICS_SERVER, file.read_text(encoding="utf-8"))
            for one in yaml.safe_load_all(text.replace(":latest", f":{version}")):
                if one and one["kind"] not in _LEFT_OUT:
                    yield one


def _templated(manifest: Manifest) -> str:
    """The manifest as a template that takes its resources from the values, where the program gives some."""
    if manifest["kind"] != "Deployment":
        return _escaped(yaml.safe_dump(manifest))
    pod = manifest["spec"]["template"]
    key = _RESOURCES[pod["metadata"]["labels"]["app"]]
    usual = json.dumps(pod["spec"]["containers"][0].get("resources") or {})
    pod["spec"]["containers"][0]["resources"] = "RESOURCES"
    given = f"{{{{ (.Values.resources).{key} | default ({_go(usual)} | fromJson) | toJson }}}}"
    return _escaped(yaml.safe_dump(manifest)).replace("RESOURCES", given)


def _go(text: str) -> str:
    return f"`{text}`"


def _escaped(text: str) -> str:
    """The text as Helm prints it."""
    return text.replace("{{", '{{ "{{" }}')
