"""Breaks a stack in one place: what a drill must notice. A change that hits nothing is an error of the test."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from lab.engine.pulumi import Pulumi

Inputs = dict[str, Any]
Mutation = Callable[[str, str, Inputs], bool]
"""Changes the inputs of a resource of this kind and name in place, and says whether it did."""


def changed(kind: str, change: Callable[[Inputs], None], name: str = "") -> Mutation:
    """Every resource of this Kubernetes kind (and of this name in the program) with its inputs changed."""

    def mutate(its_kind: str, its_name: str, inputs: Inputs) -> bool:
        if its_kind != kind or name not in ("", its_name):
            return False
        before = copy.deepcopy(inputs)
        change(inputs)
        assert inputs != before, f"the change leaves {its_name} as it is"
        return True

    return mutate


def unlimited(inputs: Inputs) -> None:
    """A ResourceQuota that refuses nothing."""
    inputs["spec"]["hard"] = dict.fromkeys(inputs["spec"]["hard"], "10000")


def both(*mutations: Mutation) -> Mutation:
    """One after the other."""

    def mutate(kind: str, name: str, inputs: Inputs) -> bool:
        hits = [mutation(kind, name, inputs) for mutation in mutations]
        return any(hits)

    return mutate


def retain(pulumi: Pulumi, stack: str, kind: str) -> None:
    """Write into the state that resources of this kind are kept, as if the program had said `retain_on_delete`."""
    exported = pulumi.export(stack)
    hits = [resource for resource in exported["deployment"]["resources"] if resource["type"].endswith(f":{kind}")]
    assert hits, f"the stack has no {kind}"
    for hit in hits:
        hit["retainOnDelete"] = True
    pulumi.import_state(stack, exported)
