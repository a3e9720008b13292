"""A report as one JSON document: the data of its outline, then all findings in the one shape of `facts/finding.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from facts.finding import JSON_VERSION
from facts.texts import camel_case

if TYPE_CHECKING:
    from fleet.report.outline import Outline


def json_text(outline: Outline) -> str:
    """The document. `version` counts changes of the findings' shape."""
    document = {
        "version": JSON_VERSION,
        **outline.data,
        "findings": [finding.as_json() for finding in outline.findings],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def plain(value: Any) -> Any:
    """A dataclass as JSON data, its fields in camelCase."""
    if is_dataclass(value) and not isinstance(value, type):
        return {camel_case(one.name): plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple | set | frozenset) else value
