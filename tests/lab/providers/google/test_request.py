"""The table turns the program's inputs into the requests that the provider sends."""

from __future__ import annotations

from typing import Any

from fleet.preview.record.values import Secret
from lab.providers.google.mapping import Rename, TypeMapping
from lab.providers.google.request import Node, api_path, build


def plain(node: Node) -> Any:
    if node.kind == "value":
        return node.value
    if node.kind == "list":
        return [plain(one) for one in node.below.values()]
    return {getattr(step, "name", step): plain(value) for step, value in node.below.items()}


def body_of(mapping: TypeMapping, inputs: dict[str, Any]) -> Any:
    return plain(build(mapping, inputs).body)


def test_an_input_without_an_entry_keeps_its_name_and_its_place() -> None:
    mapping = TypeMapping(read=(), document="", method="", fields={"a": Rename(to="x.y"), "a.b.c": Rename(to="x.z")})
    assert api_path(mapping, "a.b.d") == "x.y.b.d"
    assert api_path(mapping, "a.b.c") == "x.z"
    assert body_of(mapping, {"a": {"b": {"c": 1, "d": 2}}, "e": [{"f": 3}, {"f": 4}]}) == {
        "x": {"y": {"b": {"d": 2}}, "z": 1},
        "e": [{"f": 3}, {"f": 4}],
    }


def test_items_of_a_renamed_list_stay_apart() -> None:
    mapping = TypeMapping(
        read=(),
        document="",
        method="",
        fields={"allows": Rename(to="allowed"), "allows.protocol": Rename(to="allowed.IP")},
    )
    assert body_of(mapping, {"allows": [{"protocol": "tcp", "ports": ["1"]}, {"protocol": "udp"}]}) == {
        "allowed": [{"IP": "tcp", "ports": ["1"]}, {"IP": "udp"}]
    }


def test_what_is_none_or_the_providers_alone_is_not_sent_and_what_is_empty_is() -> None:
    mapping = TypeMapping(read=(), document="", method="", provider_only={"forceDestroy": "why", "a.b": "why"})
    inputs = {"forceDestroy": True, "a": {"b": 1}, "none": None, "list": [], "map": {}}
    assert body_of(mapping, inputs) == {"list": [], "map": {}}


def test_only_the_first_of_a_list_is_sent_where_the_api_takes_one() -> None:
    mapping = TypeMapping(read=(), document="", method="", fields={"rays": Rename(to="ray", first="why")})
    assert body_of(mapping, {"rays": [{"enabled": True}, {"enabled": False}]}) == {"ray": {"enabled": True}}


def test_a_secret_is_sent_open_and_marked() -> None:
    mapping = TypeMapping(read=(), document="", method="")
    request = build(mapping, {"a": Secret({"b": "c"})})
    leaf = request.body.below["a"].below["b"]
    assert (leaf.value, leaf.secret, leaf.path) == ("c", True, "a.b")


def test_a_parameter_waits_for_all_its_inputs() -> None:
    mapping = TypeMapping(
        read=(), document="", method="", parameters={"parent": "projects/{project}/locations/{location}"}
    )
    assert build(mapping, {"project": "p"}).parameters == {"parent": None}
    assert build(mapping, {"project": "p", "location": Secret("l")}).parameters == {"parent": "projects/p/locations/l"}


def test_items_of_a_keyed_list_are_a_map_by_that_input() -> None:
    mapping = TypeMapping(read=(), document="", method="", fields={"policies": Rename(to="policies", key="id")})
    assert body_of(mapping, {"policies": [{"id": "a", "n": 1}, {"id": "b", "n": 2}]}) == {
        "policies": {"a": {"id": "a", "n": 1}, "b": {"id": "b", "n": 2}}
    }
