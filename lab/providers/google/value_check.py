"""What the table says of single inputs and of several together: values, one of several, never both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fleet.preview.record.values import UNKNOWN
from lab.providers.google.complaint import Complaint, shown
from lab.providers.google.formats import FORMATS
from lab.providers.google.mapping import Conflict, TypeMapping, ValueRule, table
from lab.providers.google.request import Input, inputs_of

_TABLE = "lab/providers/google/mapping.yaml"


def check_values(inputs: Mapping[str, Any], mapping: TypeMapping) -> Iterator[Complaint]:
    """Everything that the table's own rules do not allow."""
    given = list(inputs_of(inputs))
    for one in given:
        rule = mapping.values.get(one.path)
        if rule is not None and one.value is not UNKNOWN:
            yield from _value(one, rule, mapping)
    by_path = {one.path: one for one in given}
    for choice in mapping.one_of:
        above = choice.inputs[0].rpartition(".")[0]
        beside = by_path[above].value if above in by_path else None
        if (not above or isinstance(beside, Mapping)) and not by_path.keys() & set(choice.inputs):
            yield Complaint(
                path=choice.inputs[0],
                what=f"is missing, and so is {' and '.join(choice.inputs[1:])}: one of them is needed",
                source=choice.source,
            )
    for conflict in mapping.conflicts:
        yield from _conflict(conflict, by_path)


def wrong(value: Any, rule: ValueRule) -> str | None:
    """What would be allowed instead; None if the value is."""
    if rule.format:
        return FORMATS[rule.format](value)
    if rule.values:
        return None if value in rule.values else f"one of {', '.join(rule.values)}"
    if rule.min is not None or rule.max is not None:
        return _outside(value, rule)
    if not isinstance(value, str):
        return None  # of the wrong type: the description says so
    if rule.pattern:
        return None if re.fullmatch(rule.pattern, value) else f"something that matches {rule.pattern}"
    if rule.max_characters is not None and len(value) > rule.max_characters:
        return f"at most {rule.max_characters} characters; these are {len(value)}"
    if rule.max_bytes is not None and len(value.encode()) > rule.max_bytes:
        return f"at most {rule.max_bytes} bytes; these are {len(value.encode())}"
    return None


def _value(one: Input, rule: ValueRule, mapping: TypeMapping) -> Iterator[Complaint]:
    source = rule.source or f'{mapping.document}: "{rule.says}"'
    allowed = wrong(one.value, rule)
    if allowed is not None:
        what = f"{shown(one.value, secret=one.secret)} is not allowed; allowed: {allowed}"
        yield Complaint(path=one.shown, what=what, source=source)
    elif rule.format == "iam-role" and one.value.startswith("roles/") and one.value not in table().roles:
        yield Complaint(
            path=one.shown,
            what=f"{shown(one.value, secret=one.secret)} is not under `roles` in {_TABLE}; look it up, then add it there",
            source=source,
        )


def _conflict(conflict: Conflict, given: Mapping[str, Input]) -> Iterator[Complaint]:
    beside = given.get(conflict.field)
    if beside is None or beside.value is False:
        return
    for path in conflict.inputs:
        if path in given:
            yield Complaint(
                path=given[path].shown,
                what=f"the provider refuses it beside {conflict.field}",
                source=conflict.source,
            )


def _outside(value: Any, rule: ValueRule) -> str | None:
    low, high = rule.min, rule.max
    text = f"{low:,.0f} or more" if high is None else f"{low or 0:,.0f} to {high:,.0f}"
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None  # of the wrong type: the description says so
    return None if (low is None or number >= low) and (high is None or number <= high) else text
