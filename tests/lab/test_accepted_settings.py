"""What the settings accept, the APIs accept: names at their longest, labels at their most, every mode and section."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from fleet.preview.record.recorder import record
from fleet.preview.record.values import reveal
from lab.control_plane.api import NAMESPACE, ApiRefusedError, ClusterApi, Kind
from settings.checks.placeholders import placeholders
from settings.load import check, parse
from settings.problems import SettingsError
from settings.sections.section import NAMESPACE as OURS
from settings.stack import MOST_LABELS
from tests.lab.shapes import ROOT
from tests.settings.near_valid import Config, configs
from tests.support.schemas import problems
from tests.support.settings import make_config

if TYPE_CHECKING:
    from lab.control_plane.cluster import ControlPlane

pytestmark = pytest.mark.slow
_LABEL = re.compile(r"[a-z][-_a-z0-9]{0,62}=[-_a-z0-9]{0,63}")
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane, custom_resources: object) -> ClusterApi:
    assert custom_resources
    return control_plane.api


# Llama 3.1 8B's sizes.
_LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "vocab_size": 128256,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


def longest(own_model: Path, **sections: Any) -> Config:
    """A stack whose names are as long as the settings let them be."""
    base = make_config(
        project="p" * 30,
        server={"replicas": 2, "name": "s" * 40, "apiKeySecret": "k" * 255, "engine": {"version": "0.33.0"}},
        gateway={"enabled": True, "pool": "p" * 40},
        benchmark={"enabled": True},
        weights={"tokenSecret": "t" * 255},
        labels={f"{i:02}".rjust(63, "l"): "v" * 63 for i in range(MOST_LABELS)},
        model={"id": "o" * 96 + "/" + "m" * 96, "revision": "a" * 40, "sizeGb": 16.0, "config": str(own_model)},
        **{"namespace": "n" * 63, "cluster": {"name": "c" * 40}, **sections},
    )
    return {
        key: value if key in (f"{OURS}:namespace", "gcp:project", "gcp:region") else json.loads(value)
        for key, value in base.items()
    }


LONGEST: Mapping[str, dict[str, Any]] = {
    "spot": {},
    "compute-class": {
        "namespace": "n" * 58,
        "capacity": {"mode": "compute-class", "reservation": {"name": "r" * 63, "project": "p" * 30}},
    },
    "reservation": {"capacity": {"mode": "reservation", "name": "r" * 63, "project": "p" * 30}},
    "calendar": {"capacity": {"mode": "calendar", "reservation": "r" * 63}},
    "keda and spending": {
        "cluster": {"name": "c" * 40, "keda": True},
        "spending": {"limit": 1e6, "then": "pause"},
    },
}


@pytest.mark.parametrize("stack", LONGEST)
def test_every_api_accepts_the_longest_names(api: ClusterApi, stack: str, tmp_path: Path) -> None:
    own_model = tmp_path / "config.json"
    own_model.write_text(json.dumps(_LLAMA))
    config = longest(own_model, **LONGEST[stack])
    assert not refusals_of_settings(config)
    every_api_accepts(api, config)


@settings(max_examples=40, deadline=None, suppress_health_check=[*HealthCheck])
@given(configs())
def test_what_settings_accept_every_api_accepts(api: ClusterApi, config: Config) -> None:
    assume(not refusals_of_settings(config))
    every_api_accepts(api, config)


def every_api_accepts(api: ClusterApi, config: Config) -> None:
    recording = record(ROOT, project="vllm-fleet", stack="x", config=texts(config), mode="known")
    spaces = [one for one in recording.resources if one.type == "kubernetes:core/v1:Namespace"]
    for name in {space.inputs["metadata"]["name"] for space in spaces}:
        if api.get(NAMESPACE, name) is None:
            api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for resource in recording.resources:
        inputs: Any = copy.deepcopy(reveal(dict(resource.inputs)))
        if resource.custom and resource.type.startswith("kubernetes:") and "metadata" in inputs:
            if inputs["kind"] != "Namespace":
                assert problems(inputs) == [], resource.urn
                assert refusal(api, inputs) == "", resource.urn
        elif resource.type.startswith("gcp:"):
            assert list(wrong_on_google_cloud(resource.type, inputs)) == [], resource.urn


def refusals_of_settings(config: Config) -> list[str]:
    """Why `pulumi up` would not begin with the stack, or why it cannot be recorded alone."""
    try:
        parsed = parse("x", texts(config))
    except SettingsError as error:
        return [str(error)]
    if not parsed.owns_platform:
        return ["a guest is recorded with what its platform has put out"]
    return [str(problem) for problem in (*placeholders(parsed), *check(parsed)) if problem.severity == "error"]


def texts(config: Config) -> dict[str, str]:
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}


def refusal(api: ClusterApi, manifest: Mapping[str, Any]) -> str:
    """What the API server says against creating the object; nothing is stored."""
    path = api._path(Kind.of(manifest), manifest["metadata"].get("namespace"))
    try:
        api.raw("POST", f"{path}?dryRun=All&fieldValidation=Strict", body=manifest)
    except ApiRefusedError as error:
        return "" if error.status == 409 else error.message
    return ""


def wrong_on_google_cloud(type_: str, inputs: Mapping[str, Any]) -> Iterator[str]:
    """Labels and names that Google Cloud refuses. Source: Resource Manager, labels; Compute Engine, RFC 1035."""
    # A channel's `labels` are its address; its `userLabels` are labels.
    channel = type_.endswith(":NotificationChannel")
    for key in ("userLabels",) if channel else ("labels", "resourceLabels", "userLabels"):
        labels = inputs.get(key) or {}
        yield from (f"{name}={value}" for name, value in labels.items() if not _LABEL.fullmatch(f"{name}={value}"))
        if len(labels) > 64:
            yield f"{len(labels)} labels"
    if type_.startswith("gcp:compute/") and not _NAME.fullmatch(inputs.get("name", "x")):
        yield inputs["name"]
