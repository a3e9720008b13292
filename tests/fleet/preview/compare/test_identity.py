"""Which resource of one program is which of another, by aliases as the engine derives them."""

from __future__ import annotations

from collections.abc import Callable

import pulumi

from fleet.preview.compare.identity import Matches, match
from fleet.preview.record.recording import Recording
from tests.fleet.preview.programs import run
from tests.support.rows import each_row

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


def net(name: str, *former: pulumi.Alias | str, parent: pulumi.Resource | None = None) -> None:
    options = pulumi.ResourceOptions(parent=parent, aliases=[*former])
    pulumi.CustomResource(NETWORK, name, {"name": "n"}, options)


def box(name: str = "box", *former: pulumi.Alias) -> pulumi.ComponentResource:
    return pulumi.ComponentResource("fixture:x:Box", name, None, pulumi.ResourceOptions(aliases=[*former]))


def beside_its_box(name: str = "box", *former: pulumi.Alias) -> None:
    net("net", pulumi.Alias(parent=box(name, *former)))


RENAMED = pulumi.Alias(name="web")


@each_row(
    ("old", "new", "found"),
    [
        # A child with a name of its own lives on: the name of its parent is no part of a URN.
        (lambda: Outer("web"), lambda: Outer("site"), {"apart": "apart"}),
        # The alias of a component reaches children and grandchildren.
        (
            lambda: Outer("web"),
            lambda: Outer("site", pulumi.ResourceOptions(aliases=[RENAMED])),
            {
                "site": "web",
                "site-net": "web-net",
                "apart": "apart",
                "site-inner": "web-inner",
                "site-inner-net": "web-inner-net",
            },
        ),
        # A child that moves out of its parent names the former one.
        (lambda: net("net", parent=box()), beside_its_box, {"box": "box", "net": "net"}),
        (beside_its_box, lambda: net("net", parent=box()), {"box": "box"}),
        # A child that moves into a component was without a parent.
        (
            lambda: net("net"),
            lambda: net("net", pulumi.Alias(parent=pulumi.ROOT_STACK_RESOURCE), parent=box()),
            {"net": "net"},
        ),
        # The engine reads an alias's parent through that parent's own alias.
        (
            lambda: net("net", parent=box("old-box")),
            lambda: beside_its_box("new-box", pulumi.Alias(name="old-box")),
            {"new-box": "old-box", "net": "net"},
        ),
        # A former URN is taken as it is written.
        (
            lambda: net("before"),
            lambda: net("after", "urn:pulumi:test::fixture::gcp:compute/network:Network::before"),
            {"after": "before"},
        ),
        # The present name comes before any alias.
        (lambda: (net("a"), net("b")), lambda: net("b", pulumi.Alias(name="a")), {"b": "b"}),
    ],
)
def test_a_resource_is_found_by_its_name_or_an_alias(
    old: Callable[[], object], new: Callable[[], object], found: dict[str, str]
) -> None:
    matches, _, _ = matched(old, new)
    assert names(matches) == found
    assert matches.conflicts == ()


def test_another_type_of_a_component_moves_what_is_in_it() -> None:
    retyped = pulumi.ResourceOptions(aliases=[pulumi.Alias(type_="fixture:x:Outer")])
    found, before, after = matched(lambda: Outer("web"), lambda: Outer("web", retyped, "fixture:y:Outer"))
    assert set(found.old_by_new) == set(after.by_urn)
    assert set(found.old_by_new.values()) == set(before.by_urn)
    assert any("fixture:y:Outer$fixture:x:Inner$" in urn for urn in found.old_by_new)


def test_two_that_claim_one_former_name_are_a_conflict() -> None:
    former = pulumi.Alias(name="a")
    found, _, _ = matched(lambda: net("a"), lambda: (net("b", former), net("c", former)))
    (conflict,) = found.conflicts
    for name in "abc":
        assert f"Network::{name}" in conflict
