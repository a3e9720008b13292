"""Readiness by `pulumi.com/waitFor`: `jsonpath=` and `condition=` expressions.

Source: pulumi-kubernetes 4, provider/pkg/await/condition (jsonpath.go, custom.go) and provider/pkg/jsonpath.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lab.providers.kubernetes.json_path import JsonPath, JsonPathError, parse
from lab.providers.kubernetes.verdict import Failed, Manifest, Ready, Verdict, Waiting, condition, format_condition


def custom(manifest: Manifest, expressions: Sequence[str]) -> Verdict:
    """Ready when every expression holds; Failed for an invalid one, as in the provider."""
    for expression in expressions:
        verdict = _expression(manifest, expression)
        if not isinstance(verdict, Ready):
            return verdict
    return Ready()


def condition_of(expression: str) -> tuple[str, str] | None:
    """Type and status of a `condition=` expression; None for a JSONPath."""
    if not expression.startswith("condition="):
        return None
    type_, _, status = expression.removeprefix("condition=").partition("=")
    return type_, status or "True"


def path_of(expression: str) -> tuple[JsonPath, str | None]:
    """Path and value of a `jsonpath=` expression; None if the path only has to exist. Raises JsonPathError."""
    text = expression.removeprefix("jsonpath=")
    path, brace, wanted = text.rpartition("}")
    if not brace:
        raise JsonPathError(f"`{text}` has no braces; write {{.status.field}}=value")
    if wanted and not wanted.startswith("="):
        raise JsonPathError(f"`{wanted}` after the path must be `=value`")
    return parse(path + brace), wanted[1:] if wanted else None


def _expression(manifest: Manifest, expression: str) -> Verdict:
    asked = condition_of(expression)
    if asked is not None:
        type_, status = asked
        found = condition(manifest, type_)
        # kubectl compares without regard to case, and so does the provider.
        if str(found.get("status", "")).lower() == status.lower():
            return Ready()
        return Waiting(f"condition {type_} to be {status}; {_seen(found)}")
    try:
        path, wanted = path_of(expression)
    except JsonPathError as error:
        return Failed(str(error))
    values = path.find(manifest)
    if not values:
        return Waiting(f"{path.text}, which is not there yet")
    if wanted is None:
        return Ready()
    if len(values) > 1:
        return Failed(f"{path.text} matches {len(values)} values; one is compared")
    if isinstance(values[0], (dict, list)):
        return Failed(f"{path.text} is a {'map' if isinstance(values[0], dict) else 'list'}; only plain values compare")
    text = _text(values[0])
    return Ready() if text == wanted else Waiting(f"{path.text} to be {wanted}; it is {text}")


def _seen(found: Any) -> str:
    if not found:
        return "nothing has set it"
    words = format_condition(found)
    return f"it is {found.get('status')}" + (f": {words}" if words else "")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
