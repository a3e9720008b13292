"""Kubernetes components as the recorder sees them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi

from fleet.preview.record.recorder import Mode, RecordedResource, Recording, record
from fleet.preview.record.values import reveal
from settings.stack import Settings
from tests.support.settings import make_config, make_settings

ROOT = Path(__file__).resolve().parents[2]

Build = Callable[[Settings, pulumi.ResourceOptions], object]
"""Makes the component under test, with the cluster's provider in the options."""


def recorded(build: Build, mode: Mode = "known", *, stack: str = "test", **sections: Any) -> Recording:
    """What the component registers, with settings made of these sections."""
    settings = make_settings(stack, **sections)

    def program() -> None:
        import pulumi_kubernetes as k8s

        provider = k8s.Provider("cluster", kubeconfig=pulumi.Output.secret("{}"))
        build(settings, pulumi.ResourceOptions(providers={"kubernetes": provider}))

    return record(ROOT, project="vllm-fleet", stack=stack, config=make_config(**sections), mode=mode, program=program)


def objects(recording: Recording) -> dict[str, RecordedResource]:
    """The Kubernetes objects by `Kind/name`."""
    return {
        f"{one.inputs['kind']}/{one.inputs['metadata']['name']}": one
        for one in recording.resources
        if one.custom and one.type.startswith("kubernetes:") and "metadata" in one.inputs
    }


def manifest(resource: RecordedResource) -> dict[str, Any]:
    """The object as it would reach the API server, secrets opened."""
    opened: dict[str, Any] = reveal(dict(resource.inputs))
    return opened


def needs(recording: Recording, resource: RecordedResource) -> set[str]:
    """`Kind/name` of the objects that must be there before this one."""
    by_urn = {one.urn: key for key, one in objects(recording).items()}
    return {by_urn[urn] for urn in resource.dependencies if urn in by_urn}
