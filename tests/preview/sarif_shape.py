"""The part of SARIF 2.1.0 that a preview writes, as a strict schema: property names and types as the standard has them.

A result that code scanning would refuse (a wrong level, a line 0, an absolute path, an index beside its rule) fails here.
Source: SARIF 2.1.0, sections 3.13, 3.14, 3.18, 3.27, 3.28, 3.35, 3.49; GitHub, "SARIF support for code scanning".
"""

from __future__ import annotations

from typing import Any

import jsonschema


def _object(required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required.split(),
        "properties": properties,
    }


def _list(items: dict[str, Any], least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least}


_TEXT = {"type": "string", "minLength": 1}
_MESSAGE = _object("text", text=_TEXT)
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_RELATIVE = {"type": "string", "pattern": r"^[^/\\: ]+(/[^/\\: ]+)*$"}
_RULE = _object(
    "id shortDescription",
    id={"type": "string", "pattern": r"^[a-z0-9-]+(/[a-z0-9-]+)?$"},
    shortDescription=_MESSAGE,
    help=_MESSAGE,
    defaultConfiguration=_object("level", level=_LEVEL),
    properties={"type": "object"},
)
_LOCATION = _object(
    "physicalLocation",
    physicalLocation=_object(
        "artifactLocation region",
        artifactLocation=_object("uri", uri=_RELATIVE, uriBaseId=_TEXT),
        region=_object("startLine", startLine={"type": "integer", "minimum": 1}),
    ),
    logicalLocations=_list(_object("fullyQualifiedName kind", fullyQualifiedName=_TEXT, kind=_TEXT)),
)
_RESULT = _object(
    "ruleId ruleIndex level message locations partialFingerprints",
    ruleId=_TEXT,
    ruleIndex={"type": "integer", "minimum": 0},
    level=_LEVEL,
    message=_MESSAGE,
    locations=_list(_LOCATION, 1),
    partialFingerprints={"type": "object", "additionalProperties": _TEXT, "minProperties": 1},
    suppressions=_list(_object("kind justification", kind={"enum": ["inSource", "external"]}, justification=_TEXT), 1),
    properties={"type": "object"},
)
_RUN = _object(
    "tool results",
    tool=_object("driver", driver=_object("name rules", name=_TEXT, rules=_list(_RULE))),
    automationDetails=_object("id", id=_TEXT),
    invocations=_list(_object("executionSuccessful", executionSuccessful={"type": "boolean"}), 1),
    results=_list(_RESULT),
)
SHAPE = _object(
    "$schema version runs", **{"$schema": _TEXT}, version={"const": "2.1.0"}, runs={**_list(_RUN, 1), "maxItems": 1}
)


def check(log: dict[str, Any]) -> None:
    """Raise if the log is not of that shape, a result names another rule than its index, or two share a fingerprint."""
    jsonschema.Draft202012Validator(SHAPE).validate(log)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules))
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
    prints = [tuple(sorted(result["partialFingerprints"].items())) for result in run["results"]]
    assert len(prints) == len(set(prints))
