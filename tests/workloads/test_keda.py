"""KEDA on a cluster: what its chart is told, who may talk to it, and who grants it what."""

from __future__ import annotations

import pulumi
import pytest

from facts.names import KEDA_ACCOUNT, KEDA_NAMESPACE, KEDA_VERSION
from fleet.preview.record.recorder import Recording
from infra.stack_cluster import Needs, joinable
from settings.derived.traffic import VpcRanges
from settings.stack import Settings
from tests.support.recorded import all_of, goes_before, named, recorded_component, recorded_platform
from tests.support.settings import make_settings
from workloads.keda.keda import Keda, KedaArgs, flows
from workloads.keda.values import METRICS_SERVER, OPERATOR, WEBHOOKS

LOAD = {"mode": "load", "min": 1, "max": 4}
SCALED = {"scaling": LOAD}
BY_BATCH = {"mode": "batch", "max": 4}
BY_CLOCK = {"mode": "schedule", "max": 4, "windows": [{"start": "08:00", "end": "19:00", "replicas": 4}]}


def build(_: Settings, opts: pulumi.ResourceOptions) -> object:
    return Keda("keda", KedaArgs(), opts)


def record() -> Recording:
    return recorded_component(build)


def test_the_release_comes_after_its_policies_and_waits_for_its_pods() -> None:
    recording = record()
    (release,) = all_of(recording, ":Release")
    assert release.inputs.get("skipAwait") is None
    assert goes_before(recording, release.name, "keda-default-deny")


def test_only_the_operator_leaves_the_cluster_and_only_the_metrics_server_asks_it() -> None:
    table = list(flows(VpcRanges()))
    assert {flow.from_.name for flow in table if flow.to.name == "internet"} == {OPERATOR}
    assert {flow.from_.name for flow in table if flow.to.name == OPERATOR} == {METRICS_SERVER}
    assert {(flow.to.name, flow.port) for flow in table if flow.from_.name == "kube-system"} == {
        (METRICS_SERVER, 6443),
        (WEBHOOKS, 9443),
    }


@pytest.mark.parametrize(
    ("sections", "installed", "reads"),
    [
        ({"server": {}}, False, False),
        ({"server": SCALED}, True, True),
        ({"server": {"scaling": BY_BATCH}}, True, False),
        ({"server": {"scaling": BY_CLOCK}}, True, False),
        ({"server": {"scaling": BY_BATCH}, "cluster": {"keda": True}}, True, True),
        ({"server": {}, "cluster": {"keda": True}}, True, True),
        ({"server": SCALED, "platform": {"stack": "base"}}, False, False),
    ],
)
def test_keda_is_installed_by_whoever_has_the_cluster_and_reads_metrics_where_a_trigger_may_ask_for_them(
    sections: dict[str, object], installed: bool, reads: bool
) -> None:
    settings = make_settings(**sections)
    assert (settings.makes_keda, settings.keda_reads_metrics) == (installed, reads)


def test_a_stack_that_scales_grants_keda_the_metrics_and_says_that_it_has_it() -> None:
    recording = recorded_platform(server=SCALED)
    grant = named(recording, f"access-{KEDA_ACCOUNT}-metrics").inputs
    assert grant["role"] == "roles/monitoring.viewer"
    assert grant["member"].endswith(f"/subject/ns/{KEDA_NAMESPACE}/sa/{KEDA_ACCOUNT}")
    assert recording.outputs["keda"] == KEDA_VERSION


def test_a_guest_that_scales_needs_a_platform_that_says_it_has_keda() -> None:
    base = {
        "region": "europe-west4",
        "project": "p",
        "namespace": "base",
        "ranges": {"pods": "10.64.0.0/14"},
        "keda": "",
    }
    base |= {"clusterIdentity": "one"}
    guest = ("base", "p", "europe-west4", "guest", Needs(keda=True))
    with pytest.raises(pulumi.RunError, match=r"cluster: \{keda: true\} in base"):
        joinable(base, *guest)
    assert joinable(has_keda := base | {"keda": KEDA_VERSION}, *guest) == has_keda
