"""What a change does to a fleet that runs, in words and in numbers, and what to stop for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.preview.compare.changes import Changes
from fleet.preview.compare.compare import compare
from fleet.preview.compare.dangers import _LOSSES
from fleet.preview.compare.gpu_pods import gpu_pods
from fleet.preview.record.recording import Alias, RecordedResource
from fleet.preview.record.values import UNKNOWN
from tests.fleet.preview.fleets import (
    CLUSTER,
    NAMESPACE,
    ON_CLUSTER,
    ROOT,
    SERVER,
    WEIGHTS,
    changes_of,
    edited,
    recording,
)
from tests.fleet.preview.sample_report import resource
from tests.support.rows import each_row

ROOT_FOLDER = Path(__file__).parents[4]
IMAGE = "spec/template/spec/containers/0/image"
PRE_STOP = "spec/template/spec/containers/0/lifecycle"
MORE_TIME = {"preStop": {"sleep": {"seconds": 5}}}


def dangers(changes: Changes) -> list[str]:
    return [one.id for one in changes.dangers]


def strategy(**rolling: Any) -> RecordedResource:
    return edited(SERVER, "spec/strategy", {"type": "RollingUpdate", "rollingUpdate": rolling})


def test_the_wording_of_consequences(golden: Callable[[str, str], None]) -> None:
    new_image = edited(SERVER, IMAGE, "vllm:2")
    single = edited(SERVER, "spec/replicas", 1)
    cases = {
        "another image": changes_of(new_image),
        "another image, recreated": changes_of(edited(new_image, "spec/strategy", {"type": "Recreate"})),
        "another image, surging": changes_of(edited(strategy(maxSurge=1, maxUnavailable=0), IMAGE, "vllm:2")),
        "another image of a single replica": compare(recording(single), recording(edited(single, IMAGE, "vllm:2"))),
        "more time for streams": changes_of(edited(SERVER, PRE_STOP, MORE_TIME)),
        "more replicas": changes_of(edited(SERVER, "spec/replicas", 16), outputs=EVERY_NUMBER),
        "fewer replicas": changes_of(edited(SERVER, "spec/replicas", 8)),
        "other capacity": changes_of(edited(SERVER, "spec/template/spec/nodeSelector", {})),
        "another cluster": changes_of(edited(CLUSTER, "location", "us-central1")),
        "weights written again": changes_of(edited(WEIGHTS, "spec/storageClassName", "slow")),
        "weights beside": changes_of(edited(WEIGHTS, "metadata/name", "weights-b")),
        "no weights": changes_of(without=("weights",)),
        "no server": changes_of(without=("server",)),
        "no protection": changes_of(replace(CLUSTER, protect=False)),
        "everything new": compare(replace(recording(), resources=(), outputs={}), recording()),
    }
    lines = []
    for name, changes in cases.items():
        lines += [f"# {name}", *changes.headline, *(f"!! {one.id}: {one.message}" for one in changes.dangers), ""]
    golden("preview/consequences.txt", "\n".join(lines))


def test_another_image_restarts_replicas_one_by_one() -> None:
    changes = changes_of(edited(SERVER, IMAGE, "vllm:2"))
    radius = changes.blast_radius
    assert (radius.replicas_restarted, radius.gpus_restarted) == (12, 96)
    assert radius.minutes_of_reduced_capacity == 120


@pytest.mark.parametrize(
    ("rolling", "at_a_time", "minutes"),
    [
        ({"maxSurge": 0, "maxUnavailable": 3}, 3, 40),
        ({"maxSurge": 0, "maxUnavailable": "25%"}, 3, 40),
        ({"maxSurge": 1, "maxUnavailable": 0}, 0, 0),
        ({"maxSurge": 0, "maxUnavailable": 0}, 1, 120),
        ({}, 3, 40),
        ({"maxUnavailable": 12}, 12, 10),
    ],
)
def test_the_pace_is_that_of_the_rollout(rolling: dict[str, Any], at_a_time: int, minutes: int) -> None:
    [pods] = gpu_pods([strategy(**rolling)])
    assert pods.unavailable == at_a_time
    changes = changes_of(edited(strategy(**rolling), IMAGE, "vllm:2"))
    assert changes.blast_radius.minutes_of_reduced_capacity == minutes
    assert dangers(changes) == ["all-replicas-at-once"] * (at_a_time == 12)


def test_what_may_change_may_restart() -> None:
    was = edited(SERVER, "spec/template/spec/containers/0/env", [{"name": "A", "value": "x"}])
    now = edited(SERVER, "spec/template/spec/containers/0/env", [{"name": "A", "value": UNKNOWN}])
    changes = compare(recording(was), recording(now))
    assert "may restart" in changes.headline[0]


def _renamed(server: RecordedResource) -> RecordedResource:
    return replace(server, urn=f"{server.urn}-b", name="server-b", aliases=(Alias(urn=SERVER.urn),))


@pytest.mark.parametrize(
    ("before", "after", "streams"),
    [
        (SERVER, edited(SERVER, PRE_STOP, MORE_TIME), ["5 s", "0 s", "0 s"]),
        (SERVER, _renamed(edited(SERVER, PRE_STOP, MORE_TIME)), ["5 s", "0 s", "0 s"]),
        (edited(SERVER, "spec/replicas", 0), edited(SERVER, PRE_STOP, MORE_TIME), ["5 s", "0 s"]),
        (SERVER, edited(SERVER, IMAGE, "vllm:2"), []),
    ],
    ids=["same name", "renamed", "was paused", "same time"],
)
def test_the_time_of_open_streams_is_told_before_and_after(
    before: RecordedResource, after: RecordedResource, streams: list[str]
) -> None:
    effects = compare(recording(before), recording(after, without=(SERVER.name,))).effects
    assert [times for one in effects if (times := re.findall(r"\b\d+ s\b", one))] == ([streams] if streams else [])


def scaler(**annotations: str) -> RecordedResource:
    return resource(
        "kubernetes:keda.sh/v1alpha1:ScaledObject",
        "scaler",
        ROOT,
        inputs={
            "metadata": {"name": "qwen35-server", "namespace": "vllm", "annotations": annotations},
            "spec": {"scaleTargetRef": {"name": "qwen35-server"}, "minReplicaCount": 2, "maxReplicaCount": 8},
        },
    )


def compute_class(*priorities: dict[str, Any]) -> RecordedResource:
    return resource(
        "kubernetes:cloud.google.com/v1:ComputeClass",
        "compute-class",
        ROOT,
        inputs={"spec": {"priorities": list(priorities)}},
    )


RESERVED = {"reservations": {"specific": [{"name": "big"}]}}


@pytest.mark.parametrize(
    ("before", "after", "gpus"),
    [
        ((SERVER,), (edited(SERVER, "spec/replicas", 0),), "12 replicas (96 GPUs)"),
        (
            (edited(SERVER, "spec/replicas", None), scaler()),
            (edited(SERVER, "spec/replicas", None), scaler(**{"autoscaling.keda.sh/paused-replicas": "0"})),
            "up to 8 replicas (64 GPUs)",
        ),
    ],
    ids=["by number", "beside an autoscaler"],
)
@pytest.mark.parametrize(
    ("priorities", "billed"), [((RESERVED, {"spot": True}), True), (({"spot": True},), False)], ids=["reserved", "spot"]
)
def test_a_pause_stops_every_replica(
    before: tuple[RecordedResource, ...],
    after: tuple[RecordedResource, ...],
    gpus: str,
    priorities: tuple[dict[str, Any], ...],
    billed: bool,
) -> None:
    changes = compare(
        recording(*before, compute_class(*priorities)),
        recording(*after, compute_class(*priorities), outputs={"usdPerHour": 0.11}),
    )
    (stop,) = changes.effects
    assert gpus in stop
    (money,) = changes.price_and_rate
    assert ("reservation" in money) == billed
    assert next(one.after for one in changes.deltas if one.id == "gpus") == 0


def test_a_number_that_others_set_is_not_counted() -> None:
    others = edited(SERVER, "spec/replicas", None)
    changes = compare(recording(others), recording(edited(others, IMAGE, "vllm:2")))
    by_id = {one.id: one for one in changes.deltas}
    assert "gpus" not in by_id
    assert changes.blast_radius.replicas_restarted == 1


def test_a_namespace_that_goes_takes_the_pods_in_it_along() -> None:
    other = edited(NAMESPACE, "metadata/name", "other")
    changes = changes_of(other)
    assert dangers(changes) == ["namespace-replaced", "all-replicas-at-once"]


def test_weights_that_stay_in_the_cloud_are_no_danger() -> None:
    kept = replace(WEIGHTS, retain_on_delete=True)
    changes = compare(recording(kept), recording(without=("weights",)))
    assert dangers(changes) == []


def test_a_canary_that_goes_is_none() -> None:
    name = f"{SERVER.inputs['metadata']['name']}-canary"
    canary = edited(replace(SERVER, urn=f"{SERVER.urn}-canary", name="canary"), "metadata/name", name)
    before = replace(recording(), resources=(*recording().resources, canary))
    assert dangers(compare(before, recording())) == []


GATEWAY = resource(
    "kubernetes:gateway.networking.k8s.io/v1:Gateway",
    "gateway",
    ROOT,
    inputs={"spec": {"gatewayClassName": "gke-l7-rilb", "listeners": [{"name": "http", "port": 80}]}},
    provider=ON_CLUSTER,
)
ROUTE = resource(
    "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute",
    "route",
    ROOT,
    inputs={"spec": {"parentRefs": [{"name": "gateway"}], "rules": [{"backendRefs": [{"name": "qwen35-pool"}]}]}},
    provider=ON_CLUSTER,
)
SECURE = [{"name": "http", "port": 80}, {"name": "https", "port": 443}]
STATIC = [{"type": "NamedAddress", "value": "llm"}]


@each_row(
    ("before", "after", "told"),
    [
        ((GATEWAY, ROUTE), (GATEWAY, edited(ROUTE, "spec/parentRefs/0/sectionName", "https")), True),
        ((GATEWAY, ROUTE), (GATEWAY, edited(ROUTE, "spec/hostnames", ["llm.acme.dev"])), True),
        ((GATEWAY,), (edited(GATEWAY, "spec/addresses", STATIC),), True),
        ((GATEWAY,), (edited(GATEWAY, "spec/gatewayClassName", "gke-l7-regional-external-managed"),), True),
        ((GATEWAY,), (), True),
        ((GATEWAY,), (edited(GATEWAY, "spec/listeners", SECURE),), False),
        ((GATEWAY, ROUTE), (GATEWAY, edited(ROUTE, "spec/rules/0/backendRefs/0/name", "another")), False),
        ((), (GATEWAY, ROUTE), False),
    ],
)
def test_a_gateway_that_clients_no_longer_reach_is_a_danger(
    before: tuple[RecordedResource, ...], after: tuple[RecordedResource, ...], told: bool
) -> None:
    assert dangers(compare(recording(*before), recording(*after))) == ["endpoint-moved"] * told


def test_protection_that_goes_is_a_danger() -> None:
    assert dangers(changes_of(edited(CLUSTER, "deletionProtection", False))) == ["protection-removed"]


def test_protection_that_comes_is_none() -> None:
    bare = replace(edited(CLUSTER, "deletionProtection", False), protect=False)
    assert dangers(compare(recording(bare), recording())) == []


def test_the_guide_lists_every_danger_and_every_number() -> None:
    guide = (ROOT_FOLDER / "docs" / "compare.md").read_text(encoding="utf-8")
    table = guide[guide.index("| danger | when |") :].partition("\n\n")[0]
    listed = {id_ for row in table.splitlines() for id_ in re.findall(r"`([a-z-]+)`", row.split("|")[1])}
    code = "".join(
        (ROOT_FOLDER / "fleet" / "preview" / "compare" / f"{name}.py").read_text() for name in ("dangers", "compare")
    )
    written = set(re.findall(r'\bid="([a-z-]+)"', code))
    made = {f"{kind}-{verb}" for kind, *_ in _LOSSES.values() for verb in ("replaced", "deleted")}
    assert listed == written | made
    numbers = guide[guide.index("## Numbers") :].partition("Each side")[0]
    told = {one.id for one in changes_of(outputs=EVERY_NUMBER).deltas}
    assert set(re.findall(r"`([a-z-]+)`", numbers)) == told


EVERY_NUMBER = {
    "usdPerHour": 1.0,
    "usdPerMillionTokens": 1.0,
    "usdPerMillionOutputTokens": 1.0,
    "publishedTotalTokensPerSecond": 1,
    "publishedOutputTokensPerSecond": 1,
}


def test_numbers_of_both_sides() -> None:
    priced = {"usdPerHour": 100.0, "publishedTotalTokensPerSecond": 1000, "usdPerMillionTokens": 0.5}
    changes = changes_of(edited(SERVER, "spec/replicas", 3), outputs=priced)
    told = {one.id: (one.before, one.after, one.before_at_least, one.after_at_least) for one in changes.deltas}
    assert told == {
        "usd-per-hour": (391.32, 100.0, True, False),
        "usd-per-million-tokens": (None, 0.5, False, False),
        "tokens-per-second": (None, 1000, False, False),
        "replicas": (12, 3, False, False),
        "gpus": (96, 24, False, False),
        "nodes": (12, 3, False, False),
    }
    difference = next(one.difference for one in changes.deltas if one.id == "usd-per-hour")
    assert difference == pytest.approx(-291.32)
