"""Which resource of one program is which of another, by aliases as the engine derives them."""

from __future__ import annotations

from collections.abc import Callable

import pulumi

from fleet.preview.compare.identity import Matches, match
from fleet.preview.record.recording import Recording
from tests.fleet.preview.programs import run

NETWORK = "gcp:compute/network:Network"
BUCKET = "gcp:storage/bucket:Bucket"


class Outer(pulumi.ComponentResource):
    """A component whose children begin with its name, with a component inside."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, type_: str = "fixture:x:Outer") -> None:
        super().__init__(type_, name, None, opts)
        below = pulumi.ResourceOptions(parent=self)
        pulumi.CustomResource(NETWORK, f"{name}-net", {"name": "n"}, below)
        pulumi.CustomResource(BUCKET, "apart", {"name": "b"}, below)
        Inner(f"{name}-inner", below)
        self.register_outputs({})


class Inner(pulumi.ComponentResource):
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("fixture:x:Inner", name, None, opts)
        pulumi.CustomResource(NETWORK, f"{name}-net", {"name": "i"}, pulumi.ResourceOptions(parent=self))
        self.register_outputs({})


def matched(old: Callable[[], object], new: Callable[[], object]) -> tuple[Matches, Recording, Recording]:
    before = run(lambda: old() and None, "preview")
    after = run(lambda: new() and None, "preview")
    found = match(after.resources, before.by_urn.keys(), stack="test", project="fixture")
    return found, before, after


def names(found: Matches) -> dict[str, str]:
    short = {new.rpartition("::")[2]: old.rpartition("::")[2] for new, old in found.old_by_new.items()}
    short.pop("fixture-test", None)
    return short


def test_a_rename_without_an_alias_is_another_resource() -> None:
    """A child with a name of its own lives on: the name of its parent is no part of a URN."""
    found, _, _ = matched(lambda: Outer("web"), lambda: Outer("site"))
    assert names(found) == {"apart": "apart"}


def test_the_alias_of_a_component_reaches_children_and_grandchildren() -> None:
    renamed = pulumi.ResourceOptions(aliases=[pulumi.Alias(name="web")])
    found, _, _ = matched(lambda: Outer("web"), lambda: Outer("site", renamed))
    assert names(found) == {
        "site": "web",
        "site-net": "web-net",
        "apart": "apart",
        "site-inner": "web-inner",
        "site-inner-net": "web-inner-net",
    }
    assert found.conflicts == ()


def test_another_type_of_a_component_moves_what_is_in_it() -> None:
    retyped = pulumi.ResourceOptions(aliases=[pulumi.Alias(type_="fixture:x:Outer")])
    found, before, after = matched(lambda: Outer("web"), lambda: Outer("web", retyped, "fixture:y:Outer"))
    assert set(found.old_by_new) == set(after.by_urn)
    assert set(found.old_by_new.values()) == set(before.by_urn)
    assert any("fixture:y:Outer$fixture:x:Inner$" in urn for urn in found.old_by_new)


def test_a_child_that_moves_out_of_its_parent_names_the_former_one() -> None:
    def inside() -> None:
        parent = pulumi.ComponentResource("fixture:x:Box", "box")
        pulumi.CustomResource(NETWORK, "net", {"name": "n"}, pulumi.ResourceOptions(parent=parent))

    def outside() -> None:
        parent = pulumi.ComponentResource("fixture:x:Box", "box")
        pulumi.CustomResource(
            NETWORK, "net", {"name": "n"}, pulumi.ResourceOptions(aliases=[pulumi.Alias(parent=parent)])
        )

    found, _, _ = matched(inside, outside)
    assert names(found) == {"box": "box", "net": "net"}
    moved, _, _ = matched(outside, inside)
    assert names(moved) == {"box": "box"}


def test_a_child_that_moves_into_a_component_was_without_a_parent() -> None:
    def inside() -> None:
        parent = pulumi.ComponentResource("fixture:x:Box", "box")
        former = pulumi.Alias(parent=pulumi.ROOT_STACK_RESOURCE)
        pulumi.CustomResource(NETWORK, "net", {"name": "n"}, pulumi.ResourceOptions(parent=parent, aliases=[former]))

    found, _, _ = matched(lambda: pulumi.CustomResource(NETWORK, "net", {"name": "n"}), inside)
    assert names(found) == {"net": "net"}


def test_the_former_parent_may_have_been_renamed_itself() -> None:
    """The engine reads an alias's parent through that parent's own alias."""

    def old() -> None:
        box = pulumi.ComponentResource("fixture:x:Box", "old-box")
        pulumi.CustomResource(NETWORK, "net", {"name": "n"}, pulumi.ResourceOptions(parent=box))

    def new() -> None:
        box = pulumi.ComponentResource(
            "fixture:x:Box", "new-box", None, pulumi.ResourceOptions(aliases=[pulumi.Alias(name="old-box")])
        )
        pulumi.CustomResource(NETWORK, "net", {"name": "n"}, pulumi.ResourceOptions(aliases=[pulumi.Alias(parent=box)]))

    found, _, _ = matched(old, new)
    assert names(found) == {"new-box": "old-box", "net": "net"}


def test_a_former_urn_is_taken_as_it_is_written() -> None:
    former = "urn:pulumi:test::fixture::gcp:compute/network:Network::before"
    found, _, _ = matched(
        lambda: pulumi.CustomResource(NETWORK, "before", {"name": "n"}),
        lambda: pulumi.CustomResource(NETWORK, "after", {"name": "n"}, pulumi.ResourceOptions(aliases=[former])),
    )
    assert names(found) == {"after": "before"}


def test_the_present_name_comes_before_any_alias() -> None:
    def two() -> None:
        pulumi.CustomResource(NETWORK, "a", {"name": "a"})
        pulumi.CustomResource(NETWORK, "b", {"name": "b"})

    def one() -> None:
        pulumi.CustomResource(NETWORK, "b", {"name": "b"}, pulumi.ResourceOptions(aliases=[pulumi.Alias(name="a")]))

    found, _, _ = matched(two, one)
    assert names(found) == {"b": "b"}


def test_two_that_claim_one_former_name_are_a_conflict() -> None:
    def new() -> None:
        for name in ("b", "c"):
            former = pulumi.ResourceOptions(aliases=[pulumi.Alias(name="a")])
            pulumi.CustomResource(NETWORK, name, {"name": name}, former)

    found, _, _ = matched(lambda: pulumi.CustomResource(NETWORK, "a", {"name": "a"}), new)
    (conflict,) = found.conflicts
    for name in "abc":
        assert f"Network::{name}" in conflict
