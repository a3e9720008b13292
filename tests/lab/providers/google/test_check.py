"""The program's inputs, spoilt in one place, give the one complaint about it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.preview.record.values import UNKNOWN, Secret
from lab.providers.google.check import check, check_inputs
from lab.providers.google.documents import Document
from lab.providers.google.mapping import TypeMapping
from lab.providers.google.request import build
from lab.providers.google.schema_check import check_request
from tests.lab.providers.google.samples import everything, full_name, inputs_of, spoilt

SUBNETWORK, CLUSTER = "subnetwork:Subnetwork", "cluster:Cluster"
MISTAKES = [
    pytest.param(one, id=f"{one['type'].partition(':')[0]} {one['at']} {str(one.get('value', 'gone'))[:30]}")
    for group in yaml.safe_load((Path(__file__).parent / "mistakes.yaml").read_text(encoding="utf-8")).values()
    for one in group
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_mistake_is_one_complaint_that_says_where_and_what(mistake: dict[str, Any]) -> None:
    type_ = mistake["type"]
    (found,) = spoilt(type_, mistake["at"], mistake.get("value"), name="nodes" if type_ == SUBNETWORK else "")
    assert found.path == mistake.get("path", mistake["at"])
    assert mistake.get("says", "") in f"{found.what} ({found.source})"
    assert found.source


def test_a_deprecated_field_is_a_complaint() -> None:
    (found,) = spoilt(CLUSTER, "enableTpu", True)
    assert found.path == "enableTpu"
    assert "is deprecated in the API" in found.what


def test_a_role_that_the_table_lacks_is_a_complaint() -> None:
    (found,) = spoilt("iAMMember:IAMMember", "role", "roles/container.defaultNodeServiceAcount")
    assert found.path == "role"


def test_a_deprecated_value_is_a_complaint() -> None:
    schema = {"type": "string", "enum": ["OLD", "NEW"], "enumDeprecated": [True, False]}
    content = {"revision": "1", "schemas": {"A": {"id": "A", "type": "object", "properties": {"kind": schema}}}}
    content["resources"] = {"a": {"methods": {"insert": {"id": "x.a.insert", "request": {"$ref": "A"}}}}}
    mapping = TypeMapping(read=(), document="x", method="x.a.insert")
    method = Document("x", content).method("x.a.insert")
    (found,) = check_request(build(mapping, {"kind": "OLD"}), method, mapping)
    assert '"OLD"' in found.what


def test_a_type_that_the_table_lacks_is_an_error() -> None:
    with pytest.raises(KeyError, match="gcp:compute/disk:Disk"):
        list(check_inputs("gcp:compute/disk:Disk", {"name": "a"}))


def test_a_line_names_the_resource_the_value_what_is_allowed_and_the_description() -> None:
    changed = [
        dataclasses.replace(resource, inputs={**resource.inputs, "routingMode": "REGONAL"})
        if resource.name == "network-vpc"
        else resource
        for resource in everything().resources
    ]
    (line,) = check(dataclasses.replace(everything(), resources=tuple(changed)))
    assert line.startswith(
        'network-vpc routingMode: "REGONAL" is not allowed; allowed: one of GLOBAL, REGIONAL (compute.beta '
    )
    assert "revision 20" in line
    assert line.endswith("NetworkRoutingConfig.routingMode)")


def test_two_mistakes_are_two_complaints() -> None:
    inputs = inputs_of(SUBNETWORK) | {"ipCidrRange": "x", "region": "a/b", "stackType": "IPV5"}
    assert {one.path for one in check_inputs(full_name(SUBNETWORK), inputs)} == {"ipCidrRange", "region", "stackType"}


def test_a_secret_that_is_wrong_stays_a_secret() -> None:
    inputs = inputs_of(CLUSTER) | {
        "description": Secret(7),
        "name": Secret("NOT-THIS"),
        "minMasterVersion": Secret("1.34"),
    }
    found = list(check_inputs(full_name(CLUSTER), inputs))
    assert [one.path for one in found] == ["description", "name"]
    assert "[secret]" in found[0].what
    assert not [one for one in found if "NOT-THIS" in f"{one.what}{one.source}"]


def test_an_unknown_value_hides_no_wrong_name() -> None:
    inputs = inputs_of(CLUSTER) | {"network": UNKNOWN, "locations2": UNKNOWN}
    assert [one.path for one in check_inputs(full_name(CLUSTER), inputs)] == ["locations2"]


def test_a_long_value_is_cut() -> None:
    (found,) = spoilt("account:Account", "description", "x" * 300)
    assert "x" * 78 + "…" in found.what
    assert "x" * 90 not in found.what
