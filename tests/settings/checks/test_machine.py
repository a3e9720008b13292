"""A machine, a way to get it and GPUs of a pod: what is accepted becomes the node that was named, the rest is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from facts import node_room
from facts.finding import Finding
from facts.machines import MACHINES, Machine, of_accelerator
from settings.checks.declared_server import DeclaredServer
from settings.checks.machine import machine_problems
from settings.derived.figures import figures
from settings.derived.quota_needs import quota_needs
from settings.load import check
from settings.sections.capacity import ComputeClassMode
from settings.stack import Settings
from tests.support.rows import each_row
from tests.support.settings import make_settings

LARGE = {"id": "nvidia/Qwen3.5-397B-A17B-NVFP4", "revision": "a" * 40}
SPLIT = {"partial-node", "heads-not-divisible", "tp8-on-one-gpu-model", "model-exceeds-gpus"}
OF_32B = {"id": "Qwen/Qwen3-32B", "revision": "a" * 40}

GKE = "cloud.google.com"
MODES: dict[str, dict[str, Any]] = {
    "on-demand": {"mode": "on-demand"},
    "spot": {"mode": "spot"},
    "flex-start": {"mode": "flex-start", "runDurationSeconds": 86_400},
    "calendar": {"mode": "calendar", "reservation": "window"},
    "reservation": {"mode": "reservation", "name": "block"},
    "compute-class": {"mode": "compute-class"},
}


def stack(machine: str, mode: str = "spot", gpus: int | None = None, **resources: int) -> Settings:
    """A stack whose engine uses all GPUs of its pod."""
    found = MACHINES[machine]
    server = {"replicas": 3, "resources": resources, "engine": {"dataParallelSize": gpus or found.gpus}}
    return make_settings(
        machine=machine, capacity=MODES[mode], server=server if gpus is None else {**server, "gpus": gpus}
    )


def refused(settings: Settings) -> dict[str, Finding]:
    return {one.id: one for one in machine_problems(settings) if one.severity == "error"}


def made(settings: Settings) -> Machine:
    """The machine that GKE makes for these pods: the smallest with that label and that number of GPUs that holds them."""
    selector, asked = settings.placement.node_selector, settings.resources
    gpus = int(selector.get(f"{GKE}/gke-accelerator-count", settings.placement.gpus))
    for machine in of_accelerator(selector[f"{GKE}/gke-accelerator"]):
        ssd = selector.get(f"{GKE}/gke-ephemeral-storage-local-ssd") == "true"
        room = node_room.of_machine(machine, local_ssd=ssd).share(settings.placement.gpus, gpus)
        if machine.gpus == gpus and asked.cpu <= room.cpu and asked.memory_gib <= room.memory_gib:
            return machine
    raise AssertionError("no machine holds the pod")


@given(
    machine=st.sampled_from(sorted(MACHINES)),
    mode=st.sampled_from(sorted(MODES)),
    gpus=st.sampled_from([None, 1, 2, 3, 4, 8]),
    resources=st.fixed_dictionaries(
        {},
        optional={
            "cpu": st.integers(1, 220),
            "memoryGib": st.integers(4, 3_700),
            "ephemeralStorageGib": st.integers(20, 9_000),
        },
    ),
)
def test_what_is_accepted_gets_the_machine_that_was_named(
    machine: str, mode: str, gpus: int | None, resources: dict[str, int]
) -> None:
    settings, facts = stack(machine, mode, gpus, **resources), MACHINES[machine]
    problems = refused(settings)
    assert ("capacity-mode" in problems) == (mode not in facts.ways)
    assert ("gpus-of-a-pod" in problems) == (settings.gpus_per_replica not in facts.pod_gpus)
    if problems:
        return
    assert settings.nodes * facts.gpus >= 3 * settings.gpus_per_replica > (settings.nodes - 1) * facts.gpus
    if isinstance(settings.capacity, ComputeClassMode):
        assert settings.placement.node_selector.keys() == {f"{GKE}/compute-class"}
        return
    assert made(settings) == facts
    room = node_room.of_machine(facts, local_ssd=settings.local_ssd).share(settings.gpus_per_replica, facts.gpus)
    assert settings.resources.ephemeral_storage_gib <= room.ephemeral_gib


@each_row("machine", sorted(MACHINES))
def test_every_machine_is_accepted_with_what_follows_from_its_name_alone(machine: str) -> None:
    for gpus in (None, *MACHINES[machine].pod_gpus):
        for mode in MACHINES[machine].ways:
            assert refused(stack(machine, mode, gpus)) == {}


def test_pods_that_share_a_machine_name_its_number_of_gpus_and_are_counted_by_machines() -> None:
    settings = stack("a3-highgpu-8g", gpus=2)
    assert settings.placement.node_selector[f"{GKE}/gke-accelerator-count"] == "8"
    assert (settings.nodes, settings.gpus, settings.gpu_ceiling) == (1, 8, 6)
    assert f"{GKE}/gke-accelerator-count" not in stack("a3-highgpu-2g").placement.node_selector


def test_a_mode_that_the_machine_is_not_sold_in_is_refused_with_one_that_it_is() -> None:
    problem = refused(stack("a4-highgpu-8g", "on-demand"))["capacity-mode"]
    assert "on-demand" not in problem.allowed
    assert "spot" in problem.allowed


def test_requests_that_a_smaller_machine_holds_name_it() -> None:
    problem = refused(stack("g2-standard-12", cpu=4, memoryGib=20))["fits-a-smaller-machine"]
    assert problem.subject == "vllm-fleet:machine"
    assert "g2-standard-8" in problem.allowed
    assert refused(stack("g2-standard-12", "compute-class", cpu=4, memoryGib=20)) == {}  # its class names the machine


def test_a_request_above_the_node_is_refused_with_the_most_there_is() -> None:
    problem = refused(stack("g2-standard-12", cpu=12))["pod-exceeds-node"]
    assert problem.subject == "vllm-fleet:server.resources.cpu"
    assert problem.allowed.startswith("up to 10 vCPU")


@each_row(
    ("machine", "model", "server", "expected"),
    [
        (
            "a3-highgpu-8g",
            LARGE,
            {"profile": "397b-nvfp4"},
            {"model-exceeds-gpus", "heads-not-divisible", "partial-node"},
        ),
        ("a4-highgpu-8g", None, {}, {"tp8-on-one-gpu-model", "partial-node"}),
        (
            "a3-highgpu-8g",
            OF_32B,
            {"profile": "serve-chat"},
            {"heads-not-divisible", "partial-node"},
        ),
    ],
)
def test_a_wrong_split_over_gpus_is_refused(
    machine: str, model: dict[str, Any] | None, server: dict[str, Any], expected: set[str]
) -> None:
    split = {"profile": "record", "replicas": 1, **server, "engine": {"tensorParallelSize": 3}}
    told = {one.id for one in check(make_settings(machine=machine, model=model, server=split)) if one.blocks}
    assert told & SPLIT == expected


def test_local_ssds_are_asked_for_where_the_boot_disk_is_too_small() -> None:
    key = f"{GKE}/gke-ephemeral-storage-local-ssd"
    large = stack("g2-standard-12", ephemeralStorageGib=260)
    assert (large.placement.node_selector[key], large.boot_disk_gib) == ("true", 250)
    assert refused(stack("g2-standard-12", ephemeralStorageGib=300)).keys() == {"pod-exceeds-node"}
    assert key not in stack("g2-standard-12").placement.node_selector
    assert key not in stack("a3-highgpu-1g", ephemeralStorageGib=600).placement.node_selector  # there anyway


@each_row(
    "machine, changed, requested, disk",
    [
        ("g2-standard-12", {}, 47, 110),
        ("g2-standard-12", {"weights": {"source": "huggingface"}}, 75, 164),
        ("g2-standard-12", {"server": {"compileCache": {"enabled": True}}}, 47, 130),
        ("g2-standard-12", {"server": {"resources": {"ephemeralStorageGib": 211}}}, 211, 373),
        ("g2-standard-24", {"server": {"gpus": 1}}, 47, 202),
        ("a3-highgpu-1g", {}, 498, 250),
        ("a4-highgpu-8g", {}, 500, 250),
    ],
)
def test_a_pod_asks_for_the_disk_that_it_needs_and_gke_sizes_the_boot_disk_by_it(
    machine: str, changed: dict[str, Any], requested: int, disk: int
) -> None:
    settings = make_settings(machine=machine, capacity={"mode": "spot"}, **changed)
    assert (settings.resources.ephemeral_storage_gib, settings.boot_disk_gib) == (requested, disk)


def test_what_vllm_chooses_is_judged_by_the_stacks_gpu() -> None:
    plain = {"dataParallelSize": 1, "maxNumSeqs": None, "maxNumBatchedTokens": None}
    small = DeclaredServer(make_settings(machine="g2-standard-12", server={"engine": plain}))
    large = DeclaredServer(make_settings(server={"engine": plain}))
    assert (small.sequences, small.batched_tokens) == (256, 2_048)
    assert (large.sequences, large.batched_tokens) == (1_024, 8_192)
    assert small.cache_gib() == 0 < large.cache_gib()


def test_the_guides_examples_are_accepted_and_its_table_says_how_each_machine_is_sold() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "machines.md").read_text()
    examples = re.findall(r"```yaml\n(  .*?)```", guide, re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        sections = {key.removeprefix("vllm-fleet:"): value for key, value in yaml.safe_load(example).items()}
        assert refused(make_settings(**sections)) == {}
    for mode in MODES:
        (without,) = re.findall(rf"^\| `{mode}` \|.*\| (.*) \|$", guide, re.MULTILINE)
        unsold = {machine.family for machine in MACHINES.values() if mode not in machine.ways}
        assert {family for family in ("g2", "g4", "a2", "a4x", "a3") if family.upper() in without} == unsold - {"a4"}


@pytest.mark.parametrize(
    ("machine", "zones", "lacking"),
    [
        ("g2-standard-12", ["us-central1-z"], ["us-central1-z"]),
        ("a4-highgpu-8g", ["us-central1-a", "us-central1-b"], ["us-central1-a"]),
        ("a4-highgpu-8g", ["us-central1-b"], None),
        # The catalogue lists no zones of it.
        ("g4-standard-48", ["us-central1-z"], None),
    ],
)
def test_a_zone_without_the_machine_is_a_finding(machine: str, zones: list[str], lacking: list[str] | None) -> None:
    settings = make_settings(machine=machine, region="us-central1", zones=zones, capacity={"mode": "spot"})
    found = {one.id: one for one in machine_problems(settings)}
    if lacking is None:
        assert "zone-without-machine" not in found
    else:
        assert (found["zone-without-machine"].severity, found["zone-without-machine"].found) == ("warning", lacking)


def test_a_figure_of_another_machine_is_never_this_stacks_own() -> None:
    article, other = (
        make_settings(server={"replicas": 1}),
        make_settings(machine="a3-ultragpu-8g", server={"replicas": 1}),
    )
    assert figures(article).proven
    assert not figures(other).proven
    assert "machine_type" in {difference.field for difference in figures(other).match.unargued}


@each_row(
    ("cluster", "subject"),
    [
        ({"releaseChannel": "RAPID"}, None),
        ({"releaseChannel": "STABLE"}, "vllm-fleet:cluster.releaseChannel"),
        ({"releaseChannel": "STABLE", "minVersion": "1.34"}, None),
        ({"releaseChannel": "STABLE", "minVersion": "1.35.0-gke.1"}, None),
        ({"releaseChannel": "RAPID", "minVersion": "1.33"}, "vllm-fleet:cluster.minVersion"),
    ],
)
def test_a_cluster_that_may_be_too_old_for_the_machine_is_a_finding(
    cluster: dict[str, str], subject: str | None
) -> None:
    found = {one.id: one for one in check(make_settings(machine="g4-standard-384", cluster=cluster))}
    assert getattr(found.get("gke-too-old-for-machine"), "subject", None) == subject
    assert "weights-volume-of-a-new-kind" in found


@pytest.mark.parametrize(
    ("machine", "mode", "metrics"),
    [
        ("g2-standard-12", "on-demand", {"NVIDIA_L4_GPUS", "CPUS", "SSD_TOTAL_GB"}),
        ("g2-standard-12", "spot", {"PREEMPTIBLE_NVIDIA_L4_GPUS", "CPUS"}),
        ("a2-ultragpu-1g", "on-demand", {"NVIDIA_A100_80GB_GPUS", "A2_CPUS"}),
        ("a3-highgpu-8g", "on-demand", {"GPUS_PER_GPU_FAMILY"}),
        ("g4-standard-48", "flex-start", {"PREEMPTIBLE_NVIDIA_RTX_PRO_6000_GPUS", "HDB_TOTAL_GB"}),
        ("a4x-highgpu-4g", "reservation", set()),
    ],
)
def test_a_stack_counts_against_the_quotas_of_its_gpu_and_way(machine: str, mode: str, metrics: set[str]) -> None:
    needs = {need.quota.metric: need for need in quota_needs(stack(machine, mode))}
    assert needs.keys() >= metrics
    gpus = {name for name in needs if name.endswith("GPUS") or "FAMILY" in name}
    assert len(gpus) == (1 if metrics else 0)
    assert ("GPUS_ALL_REGIONS" in needs) == bool(metrics)
    # Two nodes of Autopilot itself, and of this stack those that boot from Persistent Disk.
    own = 3 * stack(machine, mode).boot_disk_gib if MACHINES[machine].boot_disk == "pd-balanced" else 0
    assert needs["SSD_TOTAL_GB"].amount == 2 * 100 + own


def test_autopilots_own_nodes_count_where_the_stack_makes_the_cluster() -> None:
    own, guest = (
        {need.quota.metric: need.amount for need in quota_needs(make_settings(**changed))}
        for changed in ({}, {"platform": {"stack": "organization/vllm-fleet/base"}})
    )
    assert (own["SSD_TOTAL_GB"], own["CPUS"]) == (200, 4)
    assert guest.keys().isdisjoint({"SSD_TOTAL_GB", "CPUS"})
    assert own["CPUS_ALL_REGIONS"] == guest["CPUS_ALL_REGIONS"] + 4


def test_smokes_disks_fit_the_quota_of_a_new_project() -> None:
    settings = make_settings(
        machine="g2-standard-12",
        capacity={"mode": "on-demand"},
        server={"replicas": 1},
        weights={"source": "huggingface"},
    )
    needs = {need.quota.metric: need.amount for need in quota_needs(settings)}
    assert needs["SSD_TOTAL_GB"] <= 500
    assert needs["CPUS_ALL_REGIONS"] <= 32
