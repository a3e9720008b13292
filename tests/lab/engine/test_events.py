"""The event log as typed values."""

from __future__ import annotations

import json
from typing import Any

from lab.engine.events import Diagnostic, Events, Summary, Violation, parsed, split

A, B = (f"urn:pulumi:dev::sample::pkg:Outer$pkg:index:Thing::{name}" for name in ("a", "b"))


def step(kind: str, operation: str, urn: str = A, **fields: Any) -> dict[str, Any]:
    state = {"inputs": {"size": 1}, "protect": True}
    metadata = {"op": operation, "urn": urn, "provider": "p", "old": None, "new": state, "detailedDiff": None, **fields}
    return {"sequence": 1, "timestamp": 2, kind: {"metadata": metadata}}


def summary(*, of_preview: bool, result: str = "succeeded") -> dict[str, Any]:
    return {"summaryEvent": {"isPreview": of_preview, "resourceChanges": {"create": 2}, "result": result}}


def read(*documents: dict[str, Any]) -> Events:
    return Events(parsed(map(json.dumps, documents)))


def test_a_step_tells_the_resource_and_what_differs() -> None:
    (found,) = read(
        step("resourcePreEvent", "update", diffs=["size"], detailedDiff={"size": {"diffKind": "update-replace"}})
    ).steps
    assert (found.urn, found.type, found.name, found.operation, found.phase) == (
        A,
        "pkg:index:Thing",
        "a",
        "update",
        "started",
    )
    assert (found.inputs, found.protect, found.diffs) == ({"size": 1}, True, ("size",))
    assert found.detailed_diff == {"size": "update-replace"}


def test_a_deleted_resource_has_the_inputs_that_it_had() -> None:
    (found,) = read(step("resOutputsEvent", "delete", old={"inputs": {"size": 2}}, new=None)).steps
    assert found.inputs == {"size": 2}
    assert found.phase == "done"


def test_the_parts_of_a_replacement_are_one_operation() -> None:
    found = read(
        step("resourcePreEvent", "create-replacement"),
        step("resourcePreEvent", "replace"),
        step("resourcePreEvent", "delete-replaced"),
        step("resourcePreEvent", "same", B),
    )
    assert found.operations == {A: "replace", B: "same"}


def test_failures_have_the_messages_of_their_resource() -> None:
    def error(message: str, urn: str = "") -> dict[str, Any]:
        return {"diagnosticEvent": {"message": message, "severity": "error", "urn": urn}}

    found = read(
        error("<{%fg 1%}>quota exceeded<{%reset%}>\n", A),
        step("resOpFailedEvent", "create"),
        step("resOpFailedEvent", "create", B),
        error("update failed"),
        {"diagnosticEvent": {"message": "by the way", "severity": "info"}},
        {"errorEvent": {"error": "broken"}},
    )
    assert found.failures == {A: "quota exceeded", B: "", "": "update failed\nbroken"}
    assert Diagnostic(severity="info", message="by the way") in found.diagnostics


def test_a_policys_finding_is_a_violation() -> None:
    given = {
        "policyName": "p",
        "policyPackName": "pack",
        "enforcementLevel": "mandatory",
        "message": "no",
        "color": "x",
    }
    found = read({"policyEvent": {**given, "resourceUrn": A}}, {"policyLoadEvent": {}})
    assert found == (Violation(policy="p", pack="pack", level="mandatory", message="no", urn=A),)


def test_a_preview_ends_with_its_summary() -> None:
    events = read(
        step("resourcePreEvent", "create"),
        summary(of_preview=True),
        step("resourcePreEvent", "create", B),
        summary(of_preview=False, result="failed"),
    )
    planned, done = split(events, is_previewed=True)
    assert planned.operations == {A: "create"}
    assert done.operations == {B: "create"}
    assert done.summary == Summary(of_preview=False, changes={"create": 2}, result="failed")
    assert split(events[2:], is_previewed=False) == (Events(), Events(events[2:]))


def test_a_preview_that_fails_is_no_update() -> None:
    events = read(step("resourcePreEvent", "create"))
    assert split(events, is_previewed=True) == (events, Events())
