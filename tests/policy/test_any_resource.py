"""No rule breaks, whatever a resource says: a rule that raises takes its verdict with it."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError, unknown_checking_proxy

import money
from preview.recording import RecordedResource
from preview.values import UNKNOWN, reveal, transform
from rule import AnyRule, Resource, Rule, all_rules, message, with_defaults
from tests.policy.mutation import STACKS, unchanged

TYPES = (
    "kubernetes:apps/v1:Deployment",
    "kubernetes:apps/v1:StatefulSet",
    "kubernetes:batch/v1:CronJob",
    "kubernetes:batch/v1:Job",
    "kubernetes:cloud.google.com/v1:ComputeClass",
    "kubernetes:core/v1:Namespace",
    "kubernetes:core/v1:PersistentVolume",
    "kubernetes:core/v1:PersistentVolumeClaim",
    "kubernetes:core/v1:Pod",
    "kubernetes:core/v1:ResourceQuota",
    "kubernetes:core/v1:Secret",
    "kubernetes:core/v1:Service",
    "kubernetes:core/v1:ServiceAccount",
    "kubernetes:gateway.networking.k8s.io/v1:Gateway",
    "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute",
    "kubernetes:helm.sh/v3:Release",
    "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet",
    "kubernetes:networking.gke.io/v1:GCPBackendPolicy",
    "kubernetes:networking.gke.io/v1:HealthCheckPolicy",
    "kubernetes:networking.k8s.io/v1:NetworkPolicy",
    "kubernetes:policy/v1:PodDisruptionBudget",
    "kubernetes:snapshot.storage.k8s.io/v1:VolumeSnapshot",
    "kubernetes:storage.k8s.io/v1:StorageClass",
    "gcp:compute/disk:Disk",
    "gcp:compute/futureReservation:FutureReservation",
    "gcp:compute/subnetwork:Subnetwork",
    "gcp:container/cluster:Cluster",
    "gcp:projects/iAMMember:IAMMember",
    "gcp:projects/service:Service",
    "gcp:storage/bucket:Bucket",
    "gcp:storage/bucketIAMMember:BucketIAMMember",
)
VALUES = st.sampled_from(
    ("true", "", "8", "64Gi", "-1", "nan", "1e999", "vllm", "serve", "sh", "-c", "vllm serve --tensor-parallel-size=8",
     "--max-num-seqs=x", "--speculative-config={", "--speculative-config=[1]", "-O", "-", "a/b:latest", "nvidia-b200",
     "hyperdisk-ml", "RollingUpdate", "100%", "10.0.0.0/8", "300.0.0.0/99", UNKNOWN_STRING_VALUE)
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | VALUES
QUICK = settings(
    max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@cache
def recorded() -> tuple[RecordedResource, ...]:
    return tuple(one for stack in STACKS for one in unchanged(stack).resources if one.custom)


@cache
def known_keys() -> tuple[str, ...]:
    """Every key that any resource of a real stack has, so that made-up ones are read and not passed over."""

    def keys(value: Any) -> Iterable[str]:
        if isinstance(value, dict):
            for key, item in value.items():
                yield str(key)
                yield from keys(item)
        elif isinstance(value, list):
            for item in value:
                yield from keys(item)

    return tuple(sorted({key for one in recorded() for key in keys(plain(one.inputs))}))


def plain(inputs: Any) -> dict[str, Any]:
    known: dict[str, Any] = transform(
        reveal(dict(inputs)), lambda leaf: UNKNOWN_STRING_VALUE if leaf is UNKNOWN else leaf
    )
    return known


def resource(type_: str, props: dict[str, Any], urn: str = "urn:pulumi:s::p::t::n") -> Resource:
    """A resource as the policy SDK hands it to a rule: behind proxies that raise for what is unknown."""
    return Resource(type=type_, props=unknown_checking_proxy(deepcopy(props)), name="n", urn=urn)


def judge(rules: Iterable[AnyRule], resources: list[Resource]) -> None:
    """Ask every rule. A value that is unknown may end a rule, nothing else may."""
    for rule in rules:
        try:
            if isinstance(rule, Rule):
                for one in resources:
                    for finding in rule.judge(one, with_defaults(rule, {})):
                        assert message(rule, finding, at_stake=money.at_stake(one))
            else:
                for finding in rule.judge(resources, with_defaults(rule, {})):
                    assert message(rule, finding)
        except UnknownValueError:
            continue
        except Exception as error:
            error.add_note(f"rule {rule.name}")
            raise


@st.composite
def anything(draw: st.DrawFn, depth: int = 4) -> Any:
    """Any value that JSON has, under keys that real resources have, too."""
    kind = draw(st.integers(0, 5)) if depth else 0
    if kind <= 1:
        return draw(SCALARS)
    if kind <= 3:
        return draw(st.lists(anything(depth - 1), max_size=3))
    keys = st.sampled_from(known_keys()) | st.text(max_size=4)
    return draw(st.dictionaries(keys, anything(depth - 1), max_size=4))


@st.composite
def damaged(draw: st.DrawFn) -> tuple[int, dict[str, Any]]:
    """A real resource with anything at one place."""
    index = draw(st.integers(0, len(recorded()) - 1))
    props = plain(recorded()[index].inputs)
    place: Any = props
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return index, props
        key = draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or draw(st.integers(0, 4)) == 0:
            place[key] = draw(anything(3))
            return index, props
        place = inner


@QUICK
@given(st.sampled_from(TYPES), st.dictionaries(st.sampled_from(("spec", "metadata", "values", "data")), anything(5)))
def test_no_rule_breaks_on_made_up_properties(type_: str, props: dict[str, Any]) -> None:
    judge(all_rules(), [resource(type_, props)])


@QUICK
@given(damaged())
def test_no_rule_breaks_on_a_real_resource_with_anything_at_one_place(one: tuple[int, dict[str, Any]]) -> None:
    index, props = one
    judge(all_rules(), [resource(recorded()[index].type, props)])


@settings(QUICK, max_examples=40)
@given(damaged())
def test_no_rule_about_a_stack_breaks_when_one_resource_holds_anything(one: tuple[int, dict[str, Any]]) -> None:
    index, props = one
    rest = [
        Resource(type=other.type, props=plain(other.inputs), name=other.name, urn=other.urn)
        for place, other in enumerate(recorded())
        if place != index
    ]
    judge(
        [rule for rule in all_rules() if not isinstance(rule, Rule)], [*rest, resource(recorded()[index].type, props)]
    )


def test_a_rule_that_breaks_is_not_taken_for_one_that_is_silent() -> None:
    class Broken(Exception):
        pass

    def breaks(*_: object) -> Any:
        raise Broken

    rule = next(one for one in all_rules() if isinstance(one, Rule))
    with pytest.raises(Broken):
        judge([replace(rule, judge=breaks)], [resource(TYPES[0], {})])
