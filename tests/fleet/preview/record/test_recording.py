from __future__ import annotations

import pytest

from fleet.preview.record.recording import ProgramError, RecordedResource, in_dependency_order, urn_of


def resource(urn: str, *dependencies: str, provider: str = "", deleted_with: str = "") -> RecordedResource:
    return RecordedResource(
        urn=urn, type="t", name=urn, dependencies=dependencies, provider=provider, deleted_with=deleted_with
    )


def order(*resources: RecordedResource) -> list[str]:
    return [one.urn for one in in_dependency_order(resources)]


def test_independent_resources_are_sorted_by_urn() -> None:
    assert order(resource("c"), resource("a"), resource("b")) == ["a", "b", "c"]


def test_what_is_needed_comes_first_whatever_its_name() -> None:
    assert order(resource("a", "z"), resource("z"), resource("m", "a")) == ["z", "a", "m"]


def test_providers_and_what_a_resource_is_deleted_with_are_needed_too() -> None:
    assert order(
        resource("a", provider="z::some-id"), resource("b", deleted_with="y"), resource("y"), resource("z")
    ) == [
        "y",
        "b",
        "z",
        "a",
    ]


def test_needs_outside_the_recording_do_not_matter() -> None:
    assert order(resource("a", "elsewhere")) == ["a"]


def test_a_circle_is_refused_with_its_members() -> None:
    with pytest.raises(ProgramError, match=r"wait for each other.*: a, b$"):
        in_dependency_order([resource("a", "b"), resource("b", "a"), resource("c")])


def test_a_child_of_the_stack_has_no_parent_in_its_urn() -> None:
    stack = "urn:pulumi:s::p::pulumi:pulumi:Stack::p-s"
    assert urn_of(stack="s", project="p", parent=stack, type_="a:b:C", name="n") == "urn:pulumi:s::p::a:b:C::n"
    assert urn_of(stack="s", project="p", parent="", type_="a:b:C", name="n") == "urn:pulumi:s::p::a:b:C::n"


def test_components_nest_in_urns() -> None:
    outer = urn_of(stack="s", project="p", parent="", type_="x:y:Outer", name="o")
    inner = urn_of(stack="s", project="p", parent=outer, type_="x:y:Inner", name="i")
    assert inner == "urn:pulumi:s::p::x:y:Outer$x:y:Inner::i"
    assert urn_of(stack="s", project="p", parent=inner, type_="a:b:C", name="n") == (
        "urn:pulumi:s::p::x:y:Outer$x:y:Inner$a:b:C::n"
    )
