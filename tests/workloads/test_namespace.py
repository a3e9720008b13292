"""The guards of a stack's namespace."""

from __future__ import annotations

from typing import Any

from fleet.preview.record.recorder import Recording
from tests.support.recorded import manifest, needs, objects, recorded_component
from tests.support.schemas import problems
from tests.support.settings import make_settings
from tests.workloads.args import namespace_args
from workloads.namespace import Namespace


def made_with(**sections: Any) -> Recording:
    return recorded_component(lambda settings, opts: Namespace("namespace", namespace_args(settings), opts), **sections)


def test_everything_is_valid_and_in_the_namespace() -> None:
    recording = made_with(benchmark={"enabled": True})
    made = objects(recording)
    for key, resource in made.items():
        assert problems(manifest(resource)) == [], key
        assert resource.provider, key
        if key != "Namespace/vllm-test":
            assert resource.inputs["metadata"]["namespace"] == "vllm-test"
            assert "Namespace/vllm-test" in needs(recording, resource)


def test_where_somebody_else_owns_the_number_there_is_no_quota() -> None:
    assert make_settings(server={"replicas": "external"}).gpu_ceiling is None
    assert "ResourceQuota/gpu" not in objects(made_with(server={"replicas": "external"}))
