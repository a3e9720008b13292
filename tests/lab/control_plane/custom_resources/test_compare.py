"""The comparison finds every way in which a definition could let more through than the real one; and ours do not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from lab.control_plane.custom_resources.definitions import own_definitions
from tests.lab.control_plane.custom_resources.compare import differences
from tests.support.schemas import CRD_FOLDER

Schema = dict[str, Any]
NO_FOLDER = "the real definitions are not beside the repository (../shared/crds)"

REAL: Schema = {
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["mode"],
                                "properties": {
                                    "mode": {"type": "string", "enum": ["A", "B"], "default": "A"},
                                    "count": {"type": "integer", "format": "int64", "minimum": 1, "maximum": 9},
                                    "name": {"type": "string", "maxLength": 8, "pattern": "^[a-z]+$"},
                                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                                    "items": {
                                        "type": "array",
                                        "maxItems": 3,
                                        "x-kubernetes-list-type": "set",
                                        "items": {"type": "string"},
                                    },
                                },
                            }
                        },
                    }
                },
            }
        ],
    }
}


def fields(definition: Schema) -> Schema:
    version = definition["spec"]["versions"][0]
    found: Schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return found


def spec(definition: Schema) -> Schema:
    found: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def without(definition: Schema, field: str, key: str) -> None:
    del fields(definition)[field][key]


CHANGES: dict[str, tuple[Callable[[Schema], object], str]] = {
    "another group": (lambda d: d["spec"].update(group="x.com"), "group is x.com"),
    "another scope": (lambda d: d["spec"].update(scope="Cluster"), "scope is Cluster"),
    "another plural": (lambda d: d["spec"]["names"].update(plural="thingies"), "names.plural is thingies"),
    "a version that is not served": (lambda d: d["spec"]["versions"][0].update(name="v2"), "version v2"),
    "no status": (lambda d: d["spec"]["versions"][0].pop("subresources"), "version v1"),
    "a field that is not there": (lambda d: fields(d).update(extra={"type": "string"}), "v1.spec.extra:"),
    "another type": (lambda d: fields(d).update(count={"type": "string"}), "v1.spec.count: type is string"),
    "another format": (lambda d: without(d, "count", "format"), "v1.spec.count: format is None"),
    "a required field left out": (lambda d: spec(d).update(required=[]), "v1.spec.mode:"),
    "a value too many": (lambda d: fields(d)["mode"].update(enum=["A", "C"]), "v1.spec.mode: C is not a value of"),
    "any value": (lambda d: without(d, "mode", "enum"), "v1.spec.mode: any value"),
    "another default": (lambda d: fields(d)["mode"].update(default="B"), "v1.spec.mode: default is B"),
    "a lower bound": (lambda d: fields(d)["count"].update(minimum=0), "v1.spec.count: minimum is 0"),
    "no upper bound": (lambda d: without(d, "count", "maximum"), "v1.spec.count: maximum is None"),
    "more items": (lambda d: fields(d)["items"].update(maxItems=4), "v1.spec.items: maxItems is 4"),
    "another way to merge": (
        lambda d: without(d, "items", "x-kubernetes-list-type"),
        "v1.spec.items: x-kubernetes-list-type is None",
    ),
    "another pattern": (lambda d: fields(d)["name"].update(pattern=".*"), "v1.spec.name: pattern is .*"),
    "a value that does not fit the pattern": (
        lambda d: fields(d).update(name={"type": "string", "enum": ["Upper"]}),
        "v1.spec.name: 'Upper' is outside",
    ),
    "a number out of range": (
        lambda d: fields(d).update(count={"type": "integer", "format": "int64", "enum": [3, 30]}),
        "v1.spec.count: 30 is outside",
    ),
    "a map where there is none": (
        lambda d: fields(d).update(labels={"type": "object", "additionalProperties": True}),
        "v1.spec.labels: a map with any names",
    ),
    "another kind of value in a map": (
        lambda d: fields(d)["labels"]["additionalProperties"].update(type="integer"),
        "v1.spec.labels{}: type is integer",
    ),
    "an open place": (
        lambda d: spec(d).update({"x-kubernetes-preserve-unknown-fields": True}),
        "v1.spec: x-kubernetes-preserve-unknown-fields",
    ),
}


def test_a_copy_has_no_differences() -> None:
    assert differences(REAL, REAL) == []


def test_narrower_is_no_difference() -> None:
    ours = copy.deepcopy(REAL)
    del fields(ours)["items"]
    fields(ours)["mode"].update(enum=["A"])
    fields(ours)["count"].update(minimum=2, maximum=3)
    fields(ours)["name"] = {"type": "string", "enum": ["abc"]}
    fields(ours)["labels"] = {"type": "object", "properties": {"app": {"type": "string"}}}
    spec(ours)["required"] = ["mode", "count"]
    assert differences(ours, REAL) == []


def test_a_default_may_only_be_left_out_where_the_field_must_be_written() -> None:
    ours, real = copy.deepcopy(REAL), copy.deepcopy(REAL)
    without(ours, "mode", "default")
    assert differences(ours, real) == []
    spec(real)["required"], spec(ours)["required"] = [], []
    (found,) = differences(ours, real)
    assert found.startswith("v1.spec.mode: ")


@pytest.mark.parametrize("name", CHANGES)
def test_a_difference_is_found(name: str) -> None:
    change, expected = CHANGES[name]
    ours = copy.deepcopy(REAL)
    change(ours)
    (found,) = differences(ours, REAL)
    assert found.startswith(expected)


@pytest.mark.skipif(not CRD_FOLDER.is_dir(), reason=NO_FOLDER)
@pytest.mark.parametrize("ours", own_definitions(), ids=lambda one: one["spec"]["names"]["kind"])
def test_ours_accepts_nothing_that_the_real_one_does_not(ours: Schema) -> None:
    group, plural = ours["spec"]["group"], ours["spec"]["names"]["plural"]
    (path,) = CRD_FOLDER.rglob(f"{group}_{plural}.yaml")
    real = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    assert differences(ours, real) == []
