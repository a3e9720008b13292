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
