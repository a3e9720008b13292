"""Keys that are there and empty: an empty text or null is refused, and a section or list that sets nothing is a finding.

A forgotten value looks like this, and the default may cost much: an empty `machine` would be the article's A4. Pulumi passes an empty key
as an empty text, and `pulumi config set KEY null` writes the text "null". Run on Pulumi 3.259.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from facts.finding import Finding
from settings.row import Row
from settings.sections.section import NAMESPACE, Section

FLEX_START: Final = "flexStartSeconds"
"""The only key outside `engine` whose null is a choice: without it a ComputeClass has no flex-start priority."""
_NULL_HAS_A_MEANING: Final = re.compile(
    rf"{NAMESPACE}:(?:capacity\.{FLEX_START}|(?:server|rollout)\.engine\.[A-Za-z0-9]+)"
)
"""In `engine`, null removes a profile's setting."""
_OWN_VALUES: Final = re.compile(rf"{NAMESPACE}:(?:labels|(?:server|rollout)\.engine\.extraEnv)\..*", re.DOTALL)
"""Values of the user's own keys: an empty label and an empty variable are common."""
_EMPTY = Row(
    "empty-key",
    "an empty key looks like a forgotten value, and its default may be expensive or unsafe",
    "a value, or remove the key",
)
_NOTHING = Row("empty-section", "it sets nothing, so the defaults apply", "remove it, or its keys", "warning")


def is_blank(value: Any) -> bool:
    """Whether the value is null or an empty text, or the text of a YAML null."""
    return value is None or (isinstance(value, str) and value.strip() in ("", "null", "~"))


def blanks(path: str, value: Any) -> Iterator[Finding]:
    """A refusal for each empty text and null in the value at `path`."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from blanks(f"{path}.{name}", one)
    elif isinstance(value, tuple):
        for i, one in enumerate(value):
            yield from blanks(f"{path}[{i}]", one)
    elif is_blank(value):
        allowed = _OWN_VALUES if isinstance(value, str) else _NULL_HAS_A_MEANING
        if not allowed.fullmatch(path):
            yield blank(path, value)


def blank(path: str, value: Any = None) -> Finding:
    """The refusal of one empty key."""
    return _EMPTY(path, "(empty)" if value is None else value, "a value, or no such key")


def without_effect(section: Section, path: str = "") -> Iterator[Finding]:
    """A finding for each section, list and mapping that is written and sets nothing."""
    for name in sorted(section.model_fields_set):
        field, value = type(section).model_fields[name], getattr(section, name)
        at = ".".join(filter(None, (path, field.alias or name)))
        if isinstance(value, Section) and value.model_fields_set:
            yield from without_effect(value, at)
        elif isinstance(value, Section | Mapping | tuple) and not _sets(value) and value == field.get_default():
            yield _NOTHING(at, "(empty)", "a value, or no such key")


def _sets(value: Section | Mapping[str, Any] | tuple[Any, ...]) -> bool:
    return bool(value.model_fields_set if isinstance(value, Section) else value)
