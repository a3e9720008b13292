"""The tree of a change: where each resource hangs, what shares a line, what is only counted."""

from __future__ import annotations

from dataclasses import replace

from fleet.preview.compare.changes import Changes
from fleet.preview.compare.wording import MARKS
from fleet.preview.report.change_tree import change_tree, edit_of
from fleet.report.outline import Branch
from tests.fleet.preview.sample_changes import change, edited, sample_changes
from tests.fleet.preview.sample_report import TOKEN, sample_recording

OPERATIONS = {mark: operation for operation, mark in MARKS.items()}


def lines(changes: Changes) -> list[str]:
    def walk(node: Branch, depth: int) -> list[str]:
        counted = f" ({node.facts})" if "unchanged" in node.facts else ""
        below = [line for child in node.children for line in walk(child, depth + 1)]
        return [f"{'  ' * depth}{OPERATIONS[node.mark]} {node.kind} {node.name}{counted}", *below]

    tree = change_tree(changes, sample_recording())
    return [] if tree is None else walk(tree, 0)


def test_without_a_difference_there_is_no_tree() -> None:
    same = tuple(one for one in sample_changes().resources if one.silent)
    assert lines(sample_changes(resources=same)) == []


def test_resources_of_one_kind_that_differ_differently_have_lines_of_their_own() -> None:
    changes = sample_changes()
    resources = tuple(
        replace(one, properties=(edited("labels.team", None, one.name, "added"),))
        if "Service:" in one.type + ":"
        else one
        for one in changes.resources
    )
    assert len([line for line in lines(replace(changes, resources=resources)) if "projects.Service" in line]) == 4


def test_what_is_deleted_with_its_component_hangs_below_it() -> None:
    top = sample_changes().resources[0]
    component = change("vllm-fleet:workloads:Old", "old", top.urn, "delete")
    child = change("kubernetes:core/v1:ConfigMap", "old-map", component.urn, "delete")
    assert lines(sample_changes(resources=(top, component, child)))[1:] == [
        "  delete Old old",
        "    delete ConfigMap old-map",
    ]


def test_what_is_deleted_hangs_below_a_parent_that_lives_on_under_another_name() -> None:
    top = sample_changes().resources[0]
    moved = change(
        "vllm-fleet:workloads:Server", "new-name", top.urn, "same", old_urn="urn:pulumi:test::p::t:t:Old::server"
    )
    child = change("kubernetes:core/v1:ConfigMap", "gone", "urn:pulumi:test::p::t:t:Old::server", "delete")
    assert lines(sample_changes(resources=(top, moved, child)))[1:] == [
        "  same Server new-name",
        "    delete ConfigMap gone",
    ]


def test_a_parent_that_is_nowhere_loses_nobody() -> None:
    top = sample_changes().resources[0]
    stray = change("kubernetes:core/v1:ConfigMap", "stray", "urn:pulumi:test::p::t:t:T::x", "delete")
    assert lines(sample_changes(resources=(top, stray)))[1:] == ["  delete ConfigMap stray"]


def test_a_name_that_is_a_secret_is_hidden() -> None:
    top = sample_changes().resources[0]
    named = change("kubernetes:core/v1:ConfigMap", TOKEN, top.urn, "delete")
    assert lines(sample_changes(resources=(top, named)))[1:] == ["  delete ConfigMap [secret]"]


def folded(kind: str, parent_kind: str = "vllm-fleet:workloads:Server") -> bool:
    top = sample_changes().resources[0]
    component = change(parent_kind, "parent", top.urn)
    below = change(kind, "below", component.urn, "update", properties=(edited("a", 1, 2),))
    tree = change_tree(sample_changes(resources=(top, component, below)), sample_recording())
    assert tree is not None
    return tree.children[0].children[0].is_folded


def test_the_benchmark_and_rules_are_folded_and_the_server_is_open() -> None:
    assert not folded("kubernetes:apps/v1:Deployment")
    assert folded("kubernetes:monitoring.googleapis.com/v1:Rules")
    assert folded("gcp:monitoring/alertPolicy:AlertPolicy")
    assert folded("kubernetes:batch/v1:Job", "vllm-fleet:workloads:Benchmark")


def test_a_name_that_differs_only_in_a_hash_is_told_as_one() -> None:
    hashed = edit_of(edited("metadata.name", "benchmark-28163b05", "benchmark-7ce5a4ce"))
    named = edit_of(edited("metadata.name", "benchmark-28163b05", "other-7ce5a4ce"))
    image = edit_of(edited("spec.image", "vllm@28163b05", "vllm@7ce5a4ce"))
    assert hashed.remark == "another hash"
    assert (named.before, named.after) == ("benchmark-28163b05", "other-7ce5a4ce")
    assert image.remark == ""
