"""A state as typed values."""

from __future__ import annotations

from typing import Any

from lab.engine.state import parsed

SEALED = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:x"}
URN = "urn:pulumi:dev::sample::pkg:index:Thing::thing"
STACK = "urn:pulumi:dev::sample::pulumi:pulumi:Stack::sample-dev"


def entry(**fields: Any) -> dict[str, Any]:
    return {"urn": URN, "custom": True, "type": "pkg:index:Thing", **fields}


def exported(*entries: dict[str, Any], pending: Any = None) -> dict[str, Any]:
    return {"version": 3, "deployment": {"resources": list(entries), "pending_operations": pending}}


def test_secrets_are_hidden_wherever_they_are() -> None:
    state = parsed(exported(entry(inputs={"a": [{"b": SEALED}], "c": 1}, outputs={"d": SEALED})))
    assert state.resources[0].inputs == {"a": [{"b": "[secret]"}], "c": 1}
    assert state.resources[0].outputs == {"d": "[secret]"}


def test_what_waits_for_its_deletion_is_not_the_resource() -> None:
    state = parsed(exported(entry(delete=True, id="old"), entry(id="new", protect=True)))
    found = state.get(URN)
    assert found is not None
    assert (found.id, found.protect, found.name) == ("new", True, "thing")
    assert [one.id for one in state.of_type("pkg:index:Thing")] == ["old", "new"]


def test_a_state_without_resources_is_empty() -> None:
    state = parsed({"version": 3, "deployment": {"manifest": {}}})
    assert (state.resources, dict(state.pending), dict(state.outputs)) == ((), {}, {})


def test_pending_operations_and_the_stacks_outputs_are_told() -> None:
    stack = {"urn": STACK, "custom": False, "type": "pulumi:pulumi:Stack", "outputs": {"x": 1, "y": SEALED}}
    state = parsed(exported(stack, pending=[{"resource": entry(), "type": "creating"}]))
    assert state.pending == {URN: "creating"}
    assert state.outputs == {"x": 1, "y": "[secret]"}
