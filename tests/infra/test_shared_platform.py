from __future__ import annotations

from typing import Any

import pytest

from fleet.preview.record.recorder import UNKNOWN, ProgramError, Recording, Secret
from tests.support.recorded import BASE_STACK, BENCHMARK, GATEWAY, all_of, goes_before, named, only, recorded_platform

GUEST: dict[str, Any] = {"platform": {"stack": BASE_STACK}, "namespace": "guest"}


@pytest.fixture(scope="module")
def base() -> dict[str, Any]:
    return dict(recorded_platform(stack="base", gateway=GATEWAY).outputs)


def _guest(base: dict[str, Any] | None, **sections: Any) -> Recording:
    return recorded_platform(stack="guest", base=base, **{**GUEST, **sections})


def test_a_guest_makes_no_network_cluster_registry_or_bucket(base: dict[str, Any]) -> None:
    recording = _guest(base)
    assert {one.type for one in recording.resources if one.custom} == {
        "pulumi:pulumi:StackReference",
        "pulumi:providers:gcp",
        "pulumi:providers:kubernetes",
    }
    assert only(recording, ":StackReference").inputs["name"] == BASE_STACK


def test_a_stack_named_alone_is_of_this_project_and_organization(base: dict[str, Any]) -> None:
    """Pulumi Cloud takes the full name only, and a stack file that spells an organization fits one backend."""
    recording = _guest(base, platform={"stack": "base"})
    assert only(recording, ":StackReference").inputs["name"] == "organization/vllm-fleet/base"


def test_a_guest_uses_the_other_stacks_cluster(base: dict[str, Any]) -> None:
    recording = _guest(base)
    assert recording.outputs["clusterName"] == base["clusterName"]
    assert recording.outputs["kubeconfig"] == base["kubeconfig"]
    provider = named(recording, "cluster-kubernetes").inputs
    assert provider["kubeconfig"] == base["kubeconfig"]
    assert provider["clusterIdentifier"] == base["clusterIdentity"]


def test_the_kubeconfig_stays_secret_even_if_the_other_stack_put_it_out_plainly(base: dict[str, Any]) -> None:
    recording = _guest({**base, "kubeconfig": base["kubeconfig"].value})
    assert isinstance(named(recording, "cluster-kubernetes").inputs["kubeconfig"], Secret)
    assert isinstance(recording.outputs["kubeconfig"], Secret)


def test_a_guests_benchmark_writes_to_the_other_stacks_bucket_from_its_own_namespace(base: dict[str, Any]) -> None:
    for grant in (one.inputs for one in all_of(_guest(base, benchmark=BENCHMARK), ":BucketIAMMember")):
        assert grant["bucket"] == base["resultsBucket"]
        assert f"projects/{base['projectNumber']}/" in grant["member"]
        assert grant["member"].endswith("/subject/ns/guest/sa/benchmark")


def test_a_guests_batches_are_in_a_bucket_of_its_own(base: dict[str, Any]) -> None:
    recording = _guest(base, batch={"enabled": True})
    bucket = named(recording, "batches-bucket").inputs["name"]
    assert bucket == recording.outputs["batchBucket"] == "fleet-tests-guest-vllm-batches"
    for grant in (one.inputs for one in all_of(recording, ":BucketIAMMember")):
        assert grant["bucket"] == bucket
        assert f"projects/{base['projectNumber']}/" in grant["member"]
        assert grant["member"].endswith("/subject/ns/guest/sa/batch")


def test_a_guest_enables_the_api_that_only_it_needs_before_it_touches_the_cluster(base: dict[str, Any]) -> None:
    recording = _guest(base, gateway=GATEWAY)
    (api,) = all_of(recording, "projects/service:Service")
    assert api.inputs["service"] == "networkservices.googleapis.com"
    assert goes_before(recording, "cluster-kubernetes", api.name)


@pytest.mark.parametrize("mode", ["preview", "known"])
def test_a_stack_nobody_can_look_into_leaves_everything_unknown_and_nothing_wrong(mode: Any) -> None:
    recording = recorded_platform(mode, stack="guest", base=None, **GUEST)
    assert recording.outputs["clusterName"] is recording.outputs["imagePrefix"] is UNKNOWN
    assert named(recording, "cluster-kubernetes").inputs["kubeconfig"].value is UNKNOWN


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"project": "another-project"}, r"gcp:project fleet-tests.*another-project"),
        ({"region": "us-central1", "zones": ["us-central1-b"]}, r"gcp:region europe-west4.*us-central1"),
        # A destroy would take both.
        ({"namespace": "vllm-base"}, r"would delete that namespace.*vllm-base-2"),
    ],
)
def test_what_cannot_share_the_cluster_is_refused(base: dict[str, Any], sections: dict[str, Any], said: str) -> None:
    with pytest.raises(ProgramError, match=f"(?s){said}"):
        _guest(base, **sections)


@pytest.mark.parametrize(
    ("wrong", "missing"),
    [
        (lambda _: {}, "clusterIdentity"),
        (lambda _: {"project": "another-program"}, "clusterIdentity"),
        (lambda base: {key: value for key, value in base.items() if key != "kubeconfig"}, "kubeconfig"),
    ],
    ids=["nothing", "something else", "no kubeconfig"],
)
def test_a_stack_that_is_not_up_yet_is_refused_with_the_command_that_brings_it_up(
    base: dict[str, Any], wrong: Any, missing: str
) -> None:
    with pytest.raises(ProgramError, match=rf"(?s)no output `{missing}`.*pulumi up --stack {BASE_STACK}"):
        _guest(wrong(base))


def test_a_gateway_on_a_network_without_proxies_is_refused_instead_of_never_programmed(base: dict[str, Any]) -> None:
    bare = {**base, "ranges": {**base["ranges"], "proxies": None}}
    with pytest.raises(ProgramError, match=r"(?s)proxy-only subnet.*PROGRAMMED False.*enabled: true"):
        _guest(bare, gateway=GATEWAY)
    assert _guest(bare).outputs["clusterName"] == base["clusterName"]
