"""This program, and components of it, as the recorder sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pulumi
from pulumi.runtime.proto import source_pb2

from fleet.preview.record.recorder import Mode, RecordedResource, Recording, StackOutputs, record
from fleet.preview.record.recording import needs_of
from fleet.preview.record.values import UNKNOWN, reveal, transform
from settings.derived.drain import Drain
from settings.sections.section import SECRET_KEYS
from settings.stack import Settings
from tests.support.settings import make_config, make_settings

ROOT = Path(__file__).resolve().parents[2]
BASE_STACK = "acme/vllm-fleet/base"
GATEWAY = {"enabled": True}
BENCHMARK = {"enabled": True}
BUDGET = {"billingAccount": "01ABCD-234567-89EFAB", "usdPerMonth": 50_000}


@contextmanager
def without_positions() -> Iterator[None]:
    """Recordings made here do not say where the program made a resource: a fifth of their time, and few tests ask."""
    with mock.patch("pulumi.runtime.resource._get_stack_trace", return_value=source_pb2.StackTrace()):
        yield


@contextmanager
def unchecked() -> Iterator[None]:
    """A program started here is refused nothing that its settings' checks find."""
    with (
        mock.patch("settings.load.check", return_value=()),
        mock.patch("settings.load.placeholders", return_value=()),
    ):
        yield


class _Unmade(pulumi.ComponentResource):
    """In place of what runs on the cluster, which takes most of a recording's time."""

    endpoint = address = key = mount = token = pool = None
    drain_seconds = 0
    drain = Drain(grace_seconds=0, pre_stop_seconds=0, after_signal_seconds=0)

    def __init__(self, name: str, args: object, opts: pulumi.ResourceOptions | None = None) -> None:  # noqa: ARG002
        super().__init__("vllm-fleet:workloads:Unmade", name, None, opts)
        self.name = name


@contextmanager
def without_workloads() -> Iterator[None]:
    """Programs started here make nothing on the cluster."""
    with ExitStack() as patched:
        for component in (
            "autoscaling.Autoscaling",
            "benchmark.benchmark.Benchmark",
            "compute_class.ComputeClass",
            "gateway.gateway.Gateway",
            "keda.keda.Keda",
            "monitoring.Monitoring",
            "namespace.Namespace",
            "network_policies.NetworkPolicies",
            "router.router.Router",
            "server.server.Server",
            "spending.spending.SpendingGuard",
            "weights.weights.Weights",
        ):
            patched.enter_context(mock.patch(f"workloads.{component}", _Unmade))
        yield


def recorded_platform(
    mode: Mode = "known",
    *,
    stack: str = "test",
    base: Mapping[str, Any] | None = None,
    serving: bool = False,
    **sections: Any,
) -> Recording:
    """The Google Cloud half of `__main__`; `base` is what the stack of `platform.stack` has put out.

    What the settings' own checks would refuse is let through. Tests must not change the recording: the next one gets the same.
    `serving`: the program also makes the other half, which some outputs and orders of the first one need.
    """
    config = make_config(**sections)
    if base is None:
        return _recorded_platform(mode, stack, tuple(sorted(config.items())), serving)
    return _record_platform(mode, stack, config, base, serving)


@cache
def _recorded_platform(mode: Mode, stack: str, config: tuple[tuple[str, str], ...], serving: bool) -> Recording:
    return _record_platform(mode, stack, dict(config), None, serving)


def _record_platform(
    mode: Mode, stack: str, config: Mapping[str, str], base: Mapping[str, Any] | None, serving: bool
) -> Recording:
    with unchecked(), without_positions(), nullcontext() if serving else without_workloads():
        whole = record(
            ROOT,
            project="vllm-fleet",
            stack=stack,
            config=config,
            mode=mode,
            secret_keys=[key for key in config if key.partition(":")[2] in SECRET_KEYS],
            stack_outputs=lambda _: StackOutputs(values=base, source="this test"),
        )
    return replace(whole, resources=tuple(one for one in whole.resources if "vllm-fleet:workloads:" not in one.urn))


def only(recording: Recording, type_: str) -> RecordedResource:
    """The one resource whose type ends so."""
    found = all_of(recording, type_)
    assert len(found) == 1, [one.urn for one in found]
    return found[0]


def all_of(recording: Recording, type_: str) -> list[RecordedResource]:
    """Every resource whose type ends so."""
    return [one for one in recording.resources if one.type.endswith(type_)]


def named(recording: Recording, name: str) -> RecordedResource:
    """The resource of this logical name."""
    (found,) = [one for one in recording.resources if one.name == name]
    return found


def goes_before(recording: Recording, first: str, second: str) -> bool:
    """Whether `first` needs `second`, so that destroy removes it before."""
    seen: set[str] = set()
    todo = [named(recording, first).urn]
    while todo:
        urn = todo.pop()
        if urn not in seen and urn in recording.by_urn:
            seen.add(urn)
            todo += needs_of(recording.by_urn[urn])
    return named(recording, second).urn in seen


Build = Callable[[Settings, pulumi.ResourceOptions], object]
"""Makes the component under test, with the cluster's provider in the options."""


def recorded_component(
    build: Build,
    mode: Mode = "known",
    *,
    stack: str = "test",
    **sections: Any,
) -> Recording:
    """What the component registers, with settings made of these sections."""
    settings = make_settings(stack, **sections)

    def program() -> None:
        import pulumi_kubernetes as k8s

        provider = k8s.Provider("cluster", kubeconfig=pulumi.Output.secret("{}"))
        build(settings, pulumi.ResourceOptions(providers={"kubernetes": provider}))

    config = make_config(**sections)
    with without_positions():
        return record(ROOT, project="vllm-fleet", stack=stack, config=config, mode=mode, program=program)


def objects(recording: Recording) -> dict[str, RecordedResource]:
    """The Kubernetes objects by `Kind/name`."""
    return {
        f"{one.inputs['kind']}/{one.inputs['metadata']['name']}": one
        for one in recording.resources
        if one.custom and one.type.startswith("kubernetes:") and "metadata" in one.inputs
    }


def manifest(resource: RecordedResource) -> dict[str, Any]:
    """The object as it would reach the API server: secrets opened, and a text for what only the server knows."""
    opened: dict[str, Any] = transform(reveal(dict(resource.inputs)), lambda leaf: "x" if leaf is UNKNOWN else leaf)
    return opened


def needs(recording: Recording, resource: RecordedResource) -> set[str]:
    """`Kind/name` of the objects that must be there before this one."""
    by_urn = {one.urn: key for key, one in objects(recording).items()}
    return {by_urn[urn] for urn in resource.dependencies if urn in by_urn}
