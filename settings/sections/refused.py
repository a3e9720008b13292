"""A wrong value of a program's section as findings, which `facts.finding.raise_refused` raises."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_snake

from facts.finding import Finding, redacted
from facts.texts import nearest
from settings.sections.docstrings import field_docs
from settings.sections.place import place_of

PATTERN_TEXTS: Final[dict[str, str]] = {}
"""Description of each text pattern; errors show it instead of the pattern."""
_TYPES = {
    "int_type": "a whole number without quotes",
    "int_from_float": "a whole number",
    "float_type": "a number without quotes",
    "bool_type": "true or false without quotes",
    "string_type": "text in quotes",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "none_required": "null",
}


def of_section(error: ValidationError, section: type[BaseModel], path: str) -> list[Finding]:
    """What pydantic refuses in a value of `section`, in the names that a program uses: `Engine.max_model_len`."""
    findings: dict[str, Finding] = {}
    for detail in error.errors(include_url=False):
        finding = _finding(detail, section, path)
        earlier = findings.setdefault(finding.subject, finding)
        if finding.allowed != earlier.allowed:  # each branch of a union reports what it accepts
            findings[finding.subject] = replace(earlier, allowed=f"{earlier.allowed}, or {finding.allowed}")
    return list(findings.values())


def _finding(detail: Any, section: type[BaseModel], path: str) -> Finding:
    place = place_of(detail["loc"], section)
    subject = path + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place.names)
    name, kind = str(place.names[-1] if place.names else path), detail["type"]
    model = place.model or section
    if kind == "extra_forbidden":
        known = list(model.model_fields)
        near = nearest(to_snake(name), known)
        allowed, why = ", ".join(known), f"there is no such argument{f'; did you mean {near}?' if near else ''}"
        return Finding(
            id="unknown-argument",
            subject=subject,
            found="given",
            allowed=allowed,
            why=why,
            write=f"{near or '...'}=...",
        )
    doc = field_docs(model).get(place.field, "")
    missing = kind == "missing"
    allowed = (
        doc.rstrip(".")
        if missing and doc
        else "a value"
        if missing
        else allowed_words(kind, detail.get("ctx", {}), detail["msg"])
    )
    value = detail.get("input")
    digits = isinstance(value, str) and re.fullmatch(r"-?[0-9.]+", value) and kind in ("int_type", "float_type")
    return Finding(
        id="missing-argument" if missing else "wrong-argument",
        subject=subject,
        found=None if missing else quoted(redacted(f"section:{name}", value)),
        allowed=allowed,
        why=doc or "the section's own limit",
        write=f"{name}={value}" if digits else f"{name}=..., {allowed}",
    )


def quoted(value: Any) -> Any:
    """A value for a finding's `found`. A text is in quotes: "8" is not 8."""
    if isinstance(value, str) and value:
        return f'"{value}"'
    if isinstance(value, Mapping):
        return {key: _listed(item) for key, item in value.items()}
    return _listed(value)


def _listed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    return value if isinstance(value, str | int | float | dict | None) else f"a value of type {type(value).__name__}"


def allowed_words(kind: str, context: dict[str, Any], message: str) -> str:
    """What pydantic would have accepted, for a person."""
    if kind in _TYPES:
        return _TYPES[kind]
    if kind == "literal_error":
        return str(context.get("expected", "")).replace(" or ", ", ").replace("'", "")
    if kind in ("greater_than_equal", "greater_than", "less_than_equal", "less_than"):
        sign = {"greater_than_equal": ">=", "greater_than": ">", "less_than_equal": "<=", "less_than": "<"}[kind]
        bound = context.get("ge", context.get("gt", context.get("le", context.get("lt"))))
        return f"{sign} {bound:g}" if isinstance(bound, float) else f"{sign} {bound}"
    if kind == "string_pattern_mismatch":
        return PATTERN_TEXTS[str(context.get("pattern"))]
    if kind == "too_short":
        return f"at least {context.get('min_length')} item(s)"
    if kind == "too_long":
        return f"at most {context.get('max_length')} item(s)"
    message = message.removeprefix("Value error, ")
    return message if message[:2].isupper() else message[:1].lower() + message[1:]  # a variable's name stays uppercase
