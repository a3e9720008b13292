"""No rule breaks, whatever a resource says: a rule that raises takes its verdict with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import money
from fleet.preview.record.recording import RecordedResource
from fleet.preview.record.values import UNKNOWN, reveal, transform
from rule import AnyRule, Resource, ResourceRule, all_rules, with_defaults
from tests.policy.case import DEPLOYMENT, of_program
from tests.policy.cases.capacity import LADDER
from tests.policy.mutation import STACKS, mutated
from tests.policy.samples import message
from tests.support.stacks import recorded_stack
from values import UNKNOWN_TEXT, UnknownValueError, readable

pytestmark = pytest.mark.slow

WRONG: tuple[Any, ...] = (
    None,
    True,
    -1.0,
    float("nan"),
    float("inf"),
    "",
    "1.2.3",
    [],
    [[{}]],
    {"x": [1.0]},
    UNKNOWN_TEXT,
)
"""What nobody should write, for every property of every kind of resource."""
WORDS = st.sampled_from(
    ("true", "", "8", "64Gi", "-1", "nan", "1e999", "vllm", "serve", "sh", "-c", "vllm serve --tensor-parallel-size=8",
     "--max-num-seqs=x", "--speculative-config={", "--speculative-config=[1]", "-O", "-", "a/b:latest", "nvidia-b200",
     "hyperdisk-ml", "RollingUpdate", "100%", "10.0.0.0/8", "300.0.0.0/99", UNKNOWN_TEXT)
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(max_size=8) | WORDS
QUICK = settings(
    max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@cache
def recorded() -> tuple[RecordedResource, ...]:
    """The resources of the real stacks, and of stacks with what those do not use."""
    ladder = mutated(of_program("", "a ladder", settings=LADDER))
    stacks = (*(recorded_stack(stack) for stack in STACKS), ladder)
    return (*(one for stack in stacks for one in stack.resources if one.custom), *_other_kinds())


def _other_kinds() -> Iterator[RecordedResource]:
    """Resources as other programs write them."""
    template = next(one for one in recorded_stack("cud").resources if one.name == DEPLOYMENT).inputs["spec"]["template"]
    metadata = {"name": "one", "namespace": "vllm", "labels": {"app": "one", "environment": "prod"}, "annotations": {}}
    reference = {"group": "", "kind": "Service", "name": "one", "namespace": "vllm"}
    specs: dict[str, dict[str, Any]] = {
        "core/v1:Pod": template["spec"],
        "apps/v1:StatefulSet": {"replicas": 2.0, "template": template, "updateStrategy": {"type": "RollingUpdate"}},
        "batch/v1:CronJob": {"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}},
        "leaderworkerset.x-k8s.io/v1:LeaderWorkerSet": {
            "replicas": 2.0,
            "leaderWorkerTemplate": {"size": 2.0, "leaderTemplate": template, "workerTemplate": template},
        },
        "core/v1:PersistentVolume": {
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": "pd.csi.storage.gke.io", "volumeHandle": "projects/p/zones/z/disks/d"},
        },
        "gateway.networking.k8s.io/v1:GRPCRoute": {
            "parentRefs": [{"name": "inference-gateway"}],
            "rules": [{"backendRefs": [reference]}],
        },
        "networking.k8s.io/v1:Ingress": {
            "ingressClassName": "gce",
            "defaultBackend": {"service": {"name": "one"}},
            "rules": [{"http": {"paths": [{"path": "/", "backend": {"service": {"name": "one"}}}]}}],
        },
        "cloud.google.com/v1:BackendConfig": {"iap": {"enabled": True}},
        "inference.networking.k8s.io/v1:InferencePool": {"selector": {"matchLabels": {"app": "one"}}},
        "networking.gke.io/v1:GCPAuthzPolicy": {"targetRef": reference, "targetRefs": [reference]},
    }
    for kind, spec in specs.items():
        yield _made(f"kubernetes:{kind}", {"metadata": metadata, "spec": spec})
    subjects = [{"kind": "ServiceAccount", "name": "one", "namespace": "vllm"}]
    yield _made("kubernetes:rbac.authorization.k8s.io/v1:RoleBinding", {"metadata": metadata, "subjects": subjects})
    yield _made("kubernetes:core/v1:Secret", {"metadata": metadata, "stringData": {"token": "x"}})
    yield _made("gcp:compute/disk:Disk", {"type": "hyperdisk-ml", "size": 64.0, "provisionedThroughput": 4800.0})
    yield _made("gcp:compute/reservation:Reservation", {"specificReservationRequired": True})
    yield _made("gcp:container/nodePool:NodePool", {"nodeConfig": {"serviceAccount": "a@b"}})
    yield _made("gcp:storage/bucketACL:BucketACL", {"predefinedAcl": "private", "roleEntities": ["OWNER:user-a"]})
    yield _made("gcp:projects/iAMPolicy:IAMPolicy", {"policyData": "{}"})
    yield _made("gcp:projects/iAMBinding:IAMBinding", {"role": "roles/editor", "members": ["user:a"]})


def _made(type_: str, inputs: dict[str, Any]) -> RecordedResource:
    return RecordedResource(urn=f"urn:pulumi:others::p::{type_}::one", type=type_, name="one", inputs=inputs)


@cache
def props_of(index: int) -> dict[str, Any]:
    known: dict[str, Any] = transform(
        reveal(dict(recorded()[index].inputs)), lambda leaf: UNKNOWN_TEXT if leaf is UNKNOWN else leaf
    )
    return known


@cache
def known_keys() -> tuple[str, ...]:
    """Every key that any resource has, so that made-up ones are read and not passed over."""
    places = (path for index in range(len(recorded())) for path in paths(props_of(index)))
    return tuple(sorted({step for path in places for step in path if isinstance(step, str)}))


Path = tuple[str | int, ...]
TEMPLATES = ("template", "leaderTemplate", "workerTemplate")


def paths(value: Any, before: Path = ()) -> Iterator[Path]:
    """Every place in a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*before, key)
        yield from paths(item, (*before, key))


def places() -> Iterator[tuple[int, Path]]:
    """One resource and place for each property of each type; items of a list are alike."""
    seen = set()
    for index, one in enumerate(recorded()):
        for path in paths(props_of(index)):
            general = tuple("#" if isinstance(step, int) else step for step in path)
            key = (one.type, general)
            # Metadata is the same everywhere, and so are pods in whatever makes them.
            if general[0] == "metadata":
                key = ("", general)
            elif one.type == "kubernetes:core/v1:Pod":
                key = ("pod", general)
            elif pods := [place for place, step in enumerate(general) if step in TEMPLATES]:
                key = ("pod", general[pods[-1] + 1 :])
            # What stands in labels and in files is read as text alone.
            if not {"labels", "matchLabels", "data", "fieldRef"} & set(general[:-1]) and key not in seen:
                seen.add(key)
                yield index, path


def with_value(index: int, path: Path, value: Any) -> Resource:
    """A recorded resource with another value at one place."""
    props = deepcopy(props_of(index))
    parent: Any = props
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = deepcopy(value)
    return resource(recorded()[index].type, props, recorded()[index].urn)


def resource(type_: str, props: dict[str, Any], urn: str = "urn:pulumi:s::p::t::n") -> Resource:
    """A resource as the policy SDK hands it to a rule: behind proxies that raise for what is unknown."""
    return Resource(type=type_, props=readable(props), name="n", urn=urn)


RESOURCE_RULES = tuple(one for one in all_rules() if isinstance(one, ResourceRule))
# This one reads every text there is and nothing else, and takes as long for it as all others together.
SWEPT_RULES = tuple(one for one in RESOURCE_RULES if one.name != "secret-in-plain-text")
STACK_RULES = tuple(one for one in all_rules() if not isinstance(one, ResourceRule))


def judge(rules: Iterable[AnyRule], subject: Resource | list[Resource]) -> None:
    """Ask every rule. A value that is unknown may end a rule, nothing else may."""
    for rule in rules:
        try:
            if isinstance(rule, ResourceRule):
                assert isinstance(subject, Resource)
                for finding in rule.judge(subject, with_defaults(rule, {})):
                    assert message(rule, finding, at_stake=money.at_stake(subject))
            else:
                for finding in rule.judge(subject if isinstance(subject, list) else [subject], with_defaults(rule, {})):
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


# The stacks are recorded when the first test draws, not whenever the tests are collected.
TYPES = st.deferred(lambda: st.sampled_from(sorted({one.type for one in recorded()})))
PLACES = st.deferred(lambda: st.sampled_from(list(places())))
TOP = st.sampled_from(("spec", "metadata", "values", "data", "parameters", "subjects"))


@QUICK
@given(TYPES, st.dictionaries(TOP, anything(5)))
def test_no_rule_breaks_on_made_up_properties(type_: str, props: dict[str, Any]) -> None:
    judge(all_rules(), resource(type_, props))


@QUICK
@given(PLACES, anything(3))
def test_no_rule_breaks_on_a_real_resource_with_anything_at_one_place(place: tuple[int, Path], value: Any) -> None:
    judge(RESOURCE_RULES, with_value(*place, value))


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_no_rule_breaks_on_a_wrong_value_at_any_place(value: Any) -> None:
    broken = []
    for index, path in places():
        try:
            judge(SWEPT_RULES, with_value(index, path, value))
        except Exception as error:
            where = f"{recorded()[index].type} {'.'.join(map(str, path))}"
            broken.append(f"{error.__notes__[0]}: {where}: {error!r}")
    assert broken == []


@settings(QUICK, max_examples=60)
@given(PLACES, st.sampled_from(WRONG) | anything(3))
def test_no_rule_about_a_stack_breaks_when_one_resource_holds_anything(place: tuple[int, Path], value: Any) -> None:
    judge(STACK_RULES, [*_stack_of(place[0]), with_value(*place, value)])


def _stack_of(index: int) -> list[Resource]:
    """The other resources of its stack; kinds that no stack has join one that has everything."""
    stack = recorded()[index].urn.split("::")[0].replace(":others", ":gateway")
    return [
        Resource(type=one.type, props=props_of(other), name=one.name, urn=one.urn)
        for other, one in enumerate(recorded())
        if other != index and one.urn.startswith((f"{stack}::", "urn:pulumi:others::"))
    ]


def test_a_rule_that_breaks_is_not_taken_for_one_that_is_silent() -> None:
    class BrokenError(Exception):
        pass

    def breaks(*_: object) -> Any:
        raise BrokenError

    with pytest.raises(BrokenError):
        judge([replace(RESOURCE_RULES[0], judge=breaks)], resource("kubernetes:core/v1:Pod", {}))
