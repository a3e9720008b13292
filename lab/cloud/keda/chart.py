"""Approximate objects of the chart `keda`: KEDA's own manifests, as the chart is in no registry that a rehearsal uses.

They come from KEDA's Go module (config/) of the same version, with the chart's names and this program's values. APIService and
webhook are left out: the simulated operator creates its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from lab.control_plane.api import Manifest
from lab.control_plane.custom_resources.definitions import KEDA, keda_definitions
from lab.control_plane.modules import pinned
from lab.results.result import RehearsalError
from workloads.keda.values import CHART, METRICS_SERVER, OPERATOR, REPOSITORY, WEBHOOKS

_FOLDERS: Final = ("service_account", "rbac", "manager", "metrics-server", "webhooks")
_LEFT_OUT: Final = ("Kustomization", "APIService", "ValidatingWebhookConfiguration")
_RESOURCES: Final = {OPERATOR: "operator", METRICS_SERVER: "metricServer", WEBHOOKS: "webhooks"}
"""Label `app` of a Deployment's pods, and its key among the chart's values for resources."""


def is_keda(inputs: Mapping[str, Any]) -> bool:
    """Whether a Helm release installs KEDA."""
    return inputs.get("chart") == CHART and (inputs.get("repositoryOpts") or {}).get("repo") == REPOSITORY


def objects(inputs: Mapping[str, Any], modules: Mapping[str, Path]) -> list[Manifest]:
    """All objects, CRDs first. Raises RehearsalError for another version than the simulated one."""
    version = pinned()[KEDA].removeprefix("v")
    if inputs.get("version") != version:
        raise RehearsalError(
            f"the rehearsal supports KEDA {version}, not {inputs.get('version')}; the version is pinned with the CRDs"
        )
    return [*keda_definitions(modules), *_installed(modules[KEDA] / "config", version, inputs.get("values") or {})]


def _installed(config: Path, version: str, values: Mapping[str, Any]) -> Iterator[Manifest]:
    for folder in _FOLDERS:
        for file in sorted((config / folder).glob("*.yaml")):
            text = re.sub(r"(?<!/)keda-metrics-apiserver", METRICS_SERVER, file.read_text(encoding="utf-8"))
            for one in yaml.safe_load_all(text.replace(":latest", f":{version}")):
                if one and one["kind"] not in _LEFT_OUT:
                    yield _with(values, one)


def _with(values: Mapping[str, Any], manifest: Manifest) -> Manifest:
    if manifest["kind"] == "Deployment":
        pod = manifest["spec"]["template"]
        given = (values.get("resources") or {}).get(_RESOURCES[pod["metadata"]["labels"]["app"]])
        if given:
            pod["spec"]["containers"][0]["resources"] = given
    return manifest
